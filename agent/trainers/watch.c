/* agent/trainers/watch.c: see watch.h. */
#include "agent/trainers/watch.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/reach/memory.h"
#include "agent/reach/proc.h"
#include "common/base/text.h"
#include "common/net/clock.h"

/* Rank 0 sees who is missing; the others see only rank 0, and that its end took their connections with
 * it: they speak so much later, if nobody has stopped them by then. */
#define AFTER_LEADER_MS(limit) ((limit) / 4 + 1000)

/* Silence is looked for so often within the time that it may last. */
#define LOOKS 8
#define LOOK_LEAST_MS 100

struct place {
    struct in_addr address; /* INADDR_ANY: the row has a name */
    uint16_t port;
};

struct watch {
    struct watch_wish wish;
    struct event *start_timer;
    struct event *silence_timer;
    uint32_t rank; /* of the first */
    struct place *places;
    size_t n_places;
    bool listens; /* each trainer of this node does */
    bool stepped;
    uint64_t kills; /* by the kernel for memory, when the epoch began */
    struct {
        uint64_t printed;
        struct tfe_mono heard;
    } trainers[MSG_NPROC_MAX];
};

static void arm(struct event *timer, uint32_t ms)
{
    struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    evtimer_add(timer, &tv);
}

/* --- starting up ------------------------------------------------------------------------------ */

/* Adds the ranks of other nodes that have no connection to rank 0, which is here; each address may
 * carry several. */
static size_t add_missing(struct watch *w, struct text *text)
{
    size_t missing = 0;
    for (size_t i = 0; i < w->n_places; i++) {
        bool is_ours = i >= w->rank && i < w->rank + w->wish.nproc;
        if (is_ours || w->places[i].address.s_addr == INADDR_ANY) {
            continue;
        }
        size_t wanted = 0; /* up to this rank, of those that share its address */
        for (size_t j = 0; j <= i; j++) {
            bool counts = j != 0 && w->places[j].address.s_addr == w->places[i].address.s_addr;
            wanted += counts ? 1 : 0;
        }
        if (proc_connections_from(w->places[0].port, w->places[i].address) >= wanted) {
            continue;
        }
        text_add(text, missing++ ? ", rank " : "rank ");
        text_add_u64(text, i);
    }
    return missing;
}

/* TensorFlow's workers all connect to worker 0, and stand in its constructor until all have. Only who
 * listens waits in there: a script that does something else is not late. */
static void on_start_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct watch *w = ctx;
    char why[MSG_SENTENCE_MAX];
    struct text text;
    (void)fd;
    (void)what;
    if (!w->listens || w->stepped || w->n_places < 2) {
        return;
    }
    text_init(&text, why, sizeof why);
    if (w->rank == 0) {
        if (add_missing(w, &text) == 0) {
            return;
        }
        text_add(&text, " never connected to rank 0");
    } else {
        const struct place *leader = &w->places[0];
        if (leader->address.s_addr == INADDR_ANY ||
            proc_connections_to(leader->address, leader->port) > 0) {
            return;
        }
        text_add(&text, "rank 0 never listened, rank ");
        text_add_u64(&text, w->rank);
        text_add(&text, " has no connection to it");
    }
    w->wish.late(w->wish.ctx, 0, ENDING_START_TIMEOUT, why);
}

/* --- silence ---------------------------------------------------------------------------------- */

static void on_silence_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct watch *w = ctx;
    uint32_t limit = w->wish.settings->progress_timeout_ms;
    struct tfe_mono now = clock_mono();
    (void)fd;
    (void)what;
    uint32_t longest = 0;
    for (uint32_t i = 0; i < w->wish.nproc; i++) {
        uint64_t printed = w->wish.printed(w->wish.ctx, i);
        if (printed != w->trainers[i].printed) {
            w->trainers[i].printed = printed;
            w->trainers[i].heard = now;
        }
        if (tfe_mono_before(w->trainers[i].heard, w->trainers[longest].heard)) {
            longest = i;
        }
    }
    /* Who hangs is silent before those who wait for it. */
    if (tfe_mono_sub(now, w->trainers[longest].heard) >= (int64_t)limit) {
        w->trainers[longest].heard = now; /* it may have ended well: the others' turn */
        w->wish.late(w->wish.ctx, longest, ENDING_PROGRESS_TIMEOUT,
                     "no step was told and nothing was printed within --progress-timeout");
    }
    arm(w->silence_timer, limit / LOOKS > LOOK_LEAST_MS ? limit / LOOKS : LOOK_LEAST_MS);
}

/* --- from outside ----------------------------------------------------------------------------- */

int watch_new(const struct watch_wish *wish, struct watch **ret)
{
    struct watch *w = calloc(1, sizeof *w);
    if (!w) {
        return TFE_ENOMEM;
    }
    w->wish = *wish;
    w->start_timer = evtimer_new(wish->base, on_start_timer, w);
    w->silence_timer = evtimer_new(wish->base, on_silence_timer, w);
    if (!w->start_timer || !w->silence_timer) {
        watch_free(w);
        return TFE_ENOMEM;
    }
    *ret = w;
    return 0;
}

void watch_free(struct watch *w)
{
    if (!w) {
        return;
    }
    if (w->start_timer) {
        event_free(w->start_timer);
    }
    if (w->silence_timer) {
        event_free(w->silence_timer);
    }
    free(w->places);
    free(w);
}

void watch_begin(struct watch *w, uint32_t rank, const struct msg_row *rows, size_t n_rows)
{
    watch_end(w);
    free(w->places);
    w->places = calloc(n_rows, sizeof *w->places);
    w->n_places = w->places ? n_rows : 0;
    for (size_t i = 0; i < w->n_places; i++) {
        w->places[i].port = rows[i].port;
        if (inet_pton(AF_INET, rows[i].host, &w->places[i].address) != 1) {
            w->places[i].address.s_addr = INADDR_ANY;
        }
    }
    w->rank = rank;
    w->listens = false;
    w->stepped = false;
    w->kills = memory_kills();
    memset(w->trainers, 0, sizeof w->trainers);
    for (uint32_t i = 0; i < w->wish.nproc; i++) {
        w->trainers[i].heard = clock_mono();
    }
    uint32_t limit = w->wish.settings->start_timeout_ms;
    if (limit) {
        arm(w->start_timer, rank == 0 ? limit : limit + AFTER_LEADER_MS(limit));
    }
    if (w->wish.settings->progress_timeout_ms) {
        arm(w->silence_timer, LOOK_LEAST_MS);
    }
}

void watch_stepped(struct watch *w, uint32_t local)
{
    w->stepped = true;
    w->trainers[local].heard = clock_mono();
}

void watch_listens(struct watch *w)
{
    w->listens = true;
}

void watch_end(struct watch *w)
{
    evtimer_del(w->start_timer);
    evtimer_del(w->silence_timer);
}

enum tfe_ending watch_ending(struct watch *w, int wait_status)
{
    if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) {
        uint64_t kills = memory_kills();
        bool is_new = kills > w->kills;
        w->kills = kills;
        return is_new ? ENDING_OUT_OF_MEMORY : ENDING_EXITED;
    }
    /* TensorFlow's constructor ends so when the cluster cannot be formed. */
    bool is_abort = (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGABRT) ||
                    (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 128 + SIGABRT);
    return is_abort && !w->listens && !w->stepped ? ENDING_START_FAILED : ENDING_EXITED;
}
