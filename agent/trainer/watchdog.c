/* agent/trainer/watchdog.c: implementation of watchdog.h. */
#include "agent/trainer/watchdog.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/memory.h"
#include "agent/os/proc.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/text/text.h"

/* Additional start timeout of the other ranks. Rank 0 knows which rank is missing; the others
 * see only that rank 0 has ended, so rank 0 must report first. */
#define AFTER_LEADER_MS(limit) ((limit) / 4 + 1000)

/* Intervals of checks whether the cluster is complete; each reads all
 * connections of the machine. */
#define WHOLE_CHECK_FIRST_MS 250
#define WHOLE_CHECK_LAST_MS 2000

/* Time after the first step or strategy when a trainer that uses the cluster certainly listens. */
#define ALONE_AFTER_MS 5000
/* Interval of checks for connections before any trainer listens. */
#define ABSENT_CHECK_MS 2000

/* Maximum number of missing ranks that are named; more are only counted. */
#define NAMED_MAX 20

/* Attempts to count connections while they change. */
#define COUNT_TRIES 4

/* Number of checks for inactivity within the progress timeout, and their minimum interval. */
#define CHECKS 8
#define CHECK_MIN_MS 100

struct replica {
    struct in_addr address; /* INADDR_ANY if the row has a host name */
    uint16_t port;
    bool has_arrived; /* connected to rank 0, judged by its address */
};

/* What a trainer waits for at its start, and whether it has to show progress afterwards. */
enum watch_kind {
    WATCH_PEER,   /* waits for its peers at rank 0; reports steps or prints */
    WATCH_SERVER, /* waits for a connection from the chief; reports nothing */
    WATCH_ALONE   /* waits for no observable peer */
};

struct watch {
    struct watch_options options;
    struct event *start_timer;
    struct event *silence_timer;
    struct event *alone_timer;
    uint32_t rank; /* rank of the node's first trainer */
    uint32_t n;    /* number of trainers on this node */
    enum watch_kind kind;
    struct replica *replicas;
    size_t n_replicas;
    bool is_idle;        /* all trainers are inactive */
    bool has_listened;   /* a trainer listens or has listened */
    bool alone_reported; /* a trainer outside the cluster was reported in this epoch */
    bool is_met;         /* a trainer was seen listening or connected to rank 0 */
    struct tfe_mono began;
    /* the cluster was complete or a step was reported, so the start timeout no longer applies */
    bool whole;
    struct tfe_mono late_at;
    uint32_t check_ms;
    uint64_t kills; /* processes killed for lack of memory up to the start of the epoch */
    struct {
        pid_t pid; /* 0 if not started */
        bool listens;
        uint64_t printed;
        struct tfe_mono active_at;
    } trainers[MSG_NPROC_MAX];
};

/* --- start of the cluster --- */

static size_t others(const struct watch *w)
{
    return w->n_replicas > w->n ? w->n_replicas - w->n : 0;
}

/* Filter for connections to rank 0, seen from the connecting side. If rank 0 has a host name,
 * any connection to the port matches. */
static struct proc_connections to_leader(const struct watch *w)
{
    return (struct proc_connections){.remote_port = w->replicas[0].port,
                                     .remote = w->replicas[0].address};
}

/* Filter for connections to rank 0 from this machine, where rank 0 runs. */
static struct proc_connections from_here(const struct watch *w)
{
    struct proc_connections which = to_leader(w);
    which.is_to_self = which.remote.s_addr == INADDR_ANY;
    return which;
}

/* Filter for all connections to rank 0, seen from its side. */
static struct proc_connections at_leader(const struct watch *w)
{
    return (struct proc_connections){.local_port = w->replicas[0].port};
}

/* Returns the number of connections to rank 0 from this node's trainers; TensorFlow's worker 0
 * also connects to itself. */
static size_t count_own(const struct watch *w)
{
    struct proc_connections which = from_here(w);
    return proc_connections_of(getpid(), &which);
}

/* Returns how many ranks of other nodes are connected to rank 0, which runs here, from
 * any address. A rank behind a second interface or NAT connects from another address than
 * the one in the table. */
static size_t count_arrived(const struct watch *w)
{
    struct proc_connections which = at_leader(w);
    size_t own = count_own(w);
    size_t all = 0;
    /* Repeats if this node's own connections change between the two counts, because own and
     * foreign connections would be confused. */
    for (int i = 0; i < COUNT_TRIES; i++) {
        all = proc_connections(&which, NULL, NULL);
        size_t before = own;
        own = count_own(w);
        if (own == before) {
            break;
        }
    }
    return all > own ? all - own : 0;
}

/* Returns true if all ranks of other nodes are connected. Looks for the owners of connections
 * only if necessary, because that scans all processes. */
static bool have_arrived(const struct watch *w)
{
    struct proc_connections which = at_leader(w);
    struct proc_connections here = from_here(w);
    size_t all = proc_connections(&which, NULL, NULL);
    return all >= others(w) && (all >= others(w) + proc_connections(&here, NULL, NULL) ||
                                count_arrived(w) >= others(w));
}

/* Returns the first local trainer that neither listens nor is connected to rank 0, or w->n if
 * there is none. (In some clusters other than TensorFlow's only one process listens.) */
static uint32_t find_absent(const struct watch *w)
{
    struct proc_connections which = to_leader(w);
    uint32_t local = 0;
    while (local < w->n && (w->trainers[local].listens || !w->trainers[local].pid ||
                            proc_connections_of(w->trainers[local].pid, &which) > 0)) {
        local++;
    }
    return local;
}

/* Returns true if no member is missing as far as this node can see. */
static bool is_whole(const struct watch *w)
{
    if (w->n_replicas == 0) {
        return true; /* no copy of the table is available */
    }
    if (w->kind == WATCH_ALONE) {
        return true;
    }
    if (w->kind == WATCH_SERVER) {
        struct proc_connections own = {.local_port = w->replicas[w->rank].port};
        return proc_connections(&own, NULL, NULL) > 0;
    }
    if (find_absent(w) < w->n) {
        return false;
    }
    if (w->rank == 0) {
        return others(w) == 0 || have_arrived(w);
    }
    struct proc_connections which = to_leader(w);
    return which.remote.s_addr == INADDR_ANY || proc_connections(&which, NULL, NULL) > 0;
}

struct arrivals {
    struct watch *w;
    size_t own; /* connections from rank 0's address still to be skipped */
};

/* Assigns a connection to the first unconnected rank with its address. */
static void note_arrival(void *ctx, struct in_addr remote)
{
    struct arrivals *arrivals = ctx;
    struct watch *w = arrivals->w;
    if (remote.s_addr == INADDR_ANY) {
        return;
    }
    if (remote.s_addr == w->replicas[0].address.s_addr && arrivals->own > 0) {
        arrivals->own--;
        return;
    }
    for (size_t i = w->n; i < w->n_replicas; i++) {
        struct replica *replica = &w->replicas[i];
        if (replica->address.s_addr == remote.s_addr && !replica->has_arrived) {
            replica->has_arrived = true;
            return;
        }
    }
}

/* Names the ranks of other nodes that are not connected to rank 0, which runs here; if addresses
 * are ambiguous, gives their number only. */
static void add_missing(struct watch *w, struct text *text)
{
    struct arrivals arrivals = {.w = w, .own = count_own(w)};
    struct proc_connections which = at_leader(w);
    size_t arrived = count_arrived(w);
    size_t unseen = 0;
    for (size_t i = 0; i < w->n_replicas; i++) {
        w->replicas[i].has_arrived = false;
    }
    proc_connections(&which, note_arrival, &arrivals);
    for (size_t i = w->n; i < w->n_replicas; i++) {
        unseen += w->replicas[i].has_arrived ? 0 : 1;
    }
    if (unseen > NAMED_MAX || unseen + arrived != others(w)) {
        text_addf(text, "rank 0 has connections from only %u of %u ranks of other nodes",
                  (unsigned)arrived, (unsigned)others(w));
        return;
    }
    const char *before = "rank ";
    for (size_t i = w->n; i < w->n_replicas; i++) {
        if (!w->replicas[i].has_arrived) {
            text_addf(text, "%s%u", before, (unsigned)i);
            before = ", rank ";
        }
    }
    text_add(text, " never connected to rank 0");
}

static void report_late(struct watch *w)
{
    char reason[MSG_SENTENCE_MAX];
    struct text text;
    uint32_t absent = w->kind == WATCH_SERVER ? w->n : find_absent(w);
    text_init(&text, reason, sizeof reason);
    if (w->kind == WATCH_SERVER) {
        text_add(&text, "no chief connected within --start-timeout: the chief's script does not "
                        "create a ParameterServerStrategy, or the chief cannot reach this node");
        w->options.late(w->options.ctx, 0, ENDING_START_TIMEOUT, reason);
        return;
    }
    if (absent < w->n) {
        text_addf(&text, "rank %u neither listens nor has a connection to rank 0",
                  w->rank + absent);
    } else if (w->rank == 0) {
        add_missing(w, &text);
    } else {
        text_addf(&text, "rank %u has no connection to rank 0", w->rank);
    }
    w->options.late(w->options.ctx, absent < w->n ? absent : 0, ENDING_START_TIMEOUT, reason);
}

/* --- training outside the cluster --- */

static bool has_others(const struct watch *w)
{
    return (w->kind == WATCH_PEER || w->kind == WATCH_SERVER) && others(w) > 0;
}

static void report_alone(struct watch *w, uint32_t local)
{
    char reason[MSG_SENTENCE_MAX];
    struct text text;
    if (w->alone_reported) {
        return;
    }
    w->alone_reported = true;
    text_init(&text, reason, sizeof reason);
    text_addf(
        &text,
        "rank %u trains, and neither listens at its address nor is connected to rank 0: its "
        "script does not use the cluster that TF_CONFIG gives it (a strategy for one machine, "
        "a TF_CONFIG that is removed or replaced)",
        (unsigned)(w->rank + local));
    w->options.alone(w->options.ctx, local, reason);
}

/* Checks the connections some time after the first step or strategy. */
static void on_alone_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct watch *w = ctx;
    uint32_t absent = has_others(w) && w->n_replicas > 0 ? find_absent(w) : w->n;
    w->is_met = w->is_met || absent == w->n;
    if (w->is_met) {
        return;
    }
    report_alone(w, absent);
    if (w->options.require_cluster) {
        w->options.late(w->options.ctx, absent, ENDING_START_TIMEOUT,
                        "the script trains without using the cluster that TF_CONFIG gives it "
                        "(--require-cluster)");
    }
}

static void schedule_alone_check(struct watch *w)
{
    if (has_others(w) && !w->is_met && !w->alone_reported &&
        !evtimer_pending(w->alone_timer, NULL)) {
        timer_after(w->alone_timer, ALONE_AFTER_MS);
    }
}

void watch_strategy_made(struct watch *w, uint32_t local)
{
    schedule_alone_check(w);
}

void watch_set_idle(struct watch *w, bool is_idle)
{
    w->is_idle = is_idle;
}

/* Returns true if the start may take longer although no trainer listens. An active
 * trainer may be loading data or train alone; an inactive one hangs, for example at an
 * address of another cluster. */
static bool may_start_later(struct watch *w)
{
    uint32_t absent = find_absent(w);
    if (absent == w->n) {
        w->is_met = true;
        return true;
    }
    return !w->is_idle && !w->options.require_cluster;
}

/* Checks whether the cluster is complete. All TensorFlow workers connect to worker 0 and block
 * in the constructor until every worker has. The timeout starts with START, or again when a
 * trainer listens, because a script may load data first. */
static void on_start_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct watch *w = ctx;
    /* Before any trainer listens no peer is connected, so the expensive check is skipped. */
    bool can_be_whole = w->has_listened || w->n_replicas == 0;
    w->whole = w->whole || (can_be_whole && is_whole(w));
    if (w->whole) {
        return;
    }
    int64_t left = tfe_mono_sub(w->late_at, clock_mono());
    if (!w->has_listened) {
        if (left <= 0 && !may_start_later(w)) {
            report_late(w);
        } else {
            timer_after(w->start_timer,
                        left <= 0 || left > ABSENT_CHECK_MS ? ABSENT_CHECK_MS : left);
        }
        return;
    }
    if (left <= 0) {
        report_late(w);
        return;
    }
    w->check_ms = backoff_next(w->check_ms, WHOLE_CHECK_FIRST_MS, WHOLE_CHECK_LAST_MS);
    timer_after(w->start_timer, left < w->check_ms ? left : w->check_ms);
}

/* --- inactivity --- */

static void on_silence_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct watch *w = ctx;
    uint32_t limit = w->options.settings->progress_timeout_ms;
    struct tfe_mono now = clock_mono();
    uint32_t longest = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        uint64_t printed = w->options.printed(w->options.ctx, i);
        if (printed != w->trainers[i].printed) {
            w->trainers[i].printed = printed;
            w->trainers[i].active_at = now;
        }
        if (tfe_mono_before(w->trainers[i].active_at, w->trainers[longest].active_at)) {
            longest = i;
        }
    }
    /* A hanging trainer becomes inactive before the trainers that wait for it. */
    if (tfe_mono_sub(now, w->trainers[longest].active_at) >= (int64_t)limit) {
        /* it may have exited successfully; check the others next */
        w->trainers[longest].active_at = now;
        w->options.late(w->options.ctx, longest, ENDING_PROGRESS_TIMEOUT,
                        "no step was reported and nothing was printed within --progress-timeout");
    }
    timer_after(w->silence_timer, limit / CHECKS > CHECK_MIN_MS ? limit / CHECKS : CHECK_MIN_MS);
}

/* --- interface --- */

struct watch *watch_new(const struct watch_options *options)
{
    struct watch *w = must_alloc(sizeof *w);
    w->options = *options;
    w->start_timer = evtimer_new(options->base, on_start_timer, w);
    w->silence_timer = evtimer_new(options->base, on_silence_timer, w);
    w->alone_timer = evtimer_new(options->base, on_alone_timer, w);
    must_succeed(w->start_timer && w->silence_timer && w->alone_timer);
    return w;
}

void watch_free(struct watch *w)
{
    if (!w) {
        return;
    }
    event_drop(&w->start_timer);
    event_drop(&w->silence_timer);
    event_drop(&w->alone_timer);
    free(w->replicas);
    free(w);
}

static enum watch_kind kind_of(const struct agent_place *place)
{
    bool is_served = place->n_rows > 0 && place->rows[place->n_rows - 1].role == TASK_PS;
    bool is_chief = place->rank == 0 && place->own.role != TASK_EVALUATOR;
    if (place->own.role == TASK_EVALUATOR || (is_served && is_chief)) {
        return WATCH_ALONE;
    }
    return is_served ? WATCH_SERVER : WATCH_PEER;
}

void watch_begin(struct watch *w, const struct agent_place *place)
{
    watch_end(w);
    free(w->replicas);
    w->replicas = calloc(place->n_rows, sizeof *w->replicas);
    w->n_replicas = w->replicas ? place->n_rows : 0;
    for (size_t i = 0; i < w->n_replicas; i++) {
        w->replicas[i].port = place->rows[i].port;
        if (inet_pton(AF_INET, place->rows[i].host, &w->replicas[i].address) != 1) {
            w->replicas[i].address.s_addr = INADDR_ANY;
        }
    }
    w->rank = place->rank;
    w->n = place->n;
    w->kind = kind_of(place);
    /* A running chief does not accept a restarted parameter server while another replica is
     * missing, so the restarted one may wait for an unlimited time. */
    w->whole = w->kind == WATCH_ALONE || place->n_rows == 1 ||
               (w->kind == WATCH_SERVER && place->is_again);
    w->is_idle = w->has_listened = w->alone_reported = w->is_met = false;
    w->began = clock_mono();
    if (w->options.settings->start_timeout_ms && has_others(w) && !w->whole) {
        uint32_t limit = w->options.settings->start_timeout_ms;
        w->late_at = tfe_mono_add(w->began, limit);
        timer_after(w->start_timer, limit < ABSENT_CHECK_MS ? limit : ABSENT_CHECK_MS);
    }
    w->kills = memory_kills();
    memset(w->trainers, 0, sizeof w->trainers);
    for (uint32_t i = 0; i < w->n; i++) {
        w->trainers[i].active_at = clock_mono();
    }
    if (w->options.settings->progress_timeout_ms && w->kind != WATCH_SERVER) {
        timer_after(w->silence_timer, CHECK_MIN_MS);
    }
}

void watch_spawned(struct watch *w, uint32_t local, pid_t pid)
{
    w->trainers[local].pid = pid;
}

void watch_stepped(struct watch *w, uint32_t local)
{
    w->whole = true;
    w->trainers[local].active_at = clock_mono();
    schedule_alone_check(w);
}

void watch_copies(struct watch *w, uint32_t local)
{
    w->whole = true; /* the script has ended, so it waits for no peer */
    w->trainers[local].active_at = clock_mono();
}

/* Restarts the start timeout: from now on the trainer waits for its peers. */
void watch_listens(struct watch *w, uint32_t local)
{
    uint32_t limit = w->options.settings->start_timeout_ms;
    w->trainers[local].listens = true;
    w->has_listened = w->is_met = true;
    w->late_at = TFE_MONO_NEVER;
    if (limit > 0) {
        w->late_at =
            tfe_mono_add(clock_mono(), w->rank == 0 ? limit : limit + AFTER_LEADER_MS(limit));
    }
    w->check_ms = limit > 0 && limit < WHOLE_CHECK_FIRST_MS ? limit : WHOLE_CHECK_FIRST_MS;
    timer_after(w->start_timer, w->check_ms);
}

void watch_end(struct watch *w)
{
    evtimer_del(w->start_timer);
    evtimer_del(w->silence_timer);
    evtimer_del(w->alone_timer);
}

enum tfe_ending watch_ending(struct watch *w, int wait_status)
{
    if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) {
        uint64_t kills = memory_kills();
        bool is_new = kills > w->kills;
        w->kills = kills;
        return is_new ? ENDING_OUT_OF_MEMORY : ENDING_EXITED;
    }
    /* TensorFlow's constructor aborts if the cluster cannot be formed. */
    bool is_abort = (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGABRT) ||
                    (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 128 + SIGABRT);
    return is_abort && !w->whole ? ENDING_START_FAILED : ENDING_EXITED;
}
