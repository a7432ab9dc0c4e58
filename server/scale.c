/* server/scale.c: see scale.h. */
#include "server/scale.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/backoff.h"
#include "common/net/clock.h"
#include "common/net/log.h"
#include "common/net/timer.h"
#include "server/placement/placement.h"

#define LOOK_MS 1000
#define AGAIN_MAX_MS 1800000
/* What is ordered comes, or does not, within so long. */
#define UNTIL_MAX_MS 86400000
/* Sets of labels that one run hears of, and jobs of all together: what comes first in order. */
#define SETS_MAX 256u
#define JOBS_MAX 256u
/* Sets of labels that machines are on their way for, and how many. */
#define PENDING_MAX 64u
#define PENDING_NODES_MAX 65536

/* Nodes that must carry the same labels, whatever jobs want them. */
struct set {
    const char *labels[PLACEMENT_LABELS_MAX]; /* in order; placement's own */
    size_t n_labels;
    uint32_t min, want, have, idle, pending;
};

/* On their way. */
struct pending {
    char *text;
    const char *labels[PLACEMENT_LABELS_MAX]; /* in order; in text */
    size_t n_labels;
    uint32_t nodes, left; /* ordered; not there yet */
    uint64_t came;        /* such nodes that have come, as counted last */
    struct tfe_wall until;
};

struct scale {
    const struct placement *placement;
    struct events *events;
    const struct scale_settings *settings;
    int fd;
    struct event *timer, *answered;
    struct set sets[SETS_MAX];
    size_t n_sets;
    struct pending pending[PENDING_MAX];
    size_t n_pending;
    bool runs, is_failing;
    struct tfe_mono began;
    struct tfe_mono due; /* NEVER: demand and supply are one */
    uint32_t again_ms;
    uint64_t digest; /* of the demand */
    struct scale_answer answer;
};

/* --- what is wanted, and what there is -------------------------------------------------------- */

static int in_order(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;
    return strcmp(*x, *y);
}

static bool is_same(const struct set *set, const char *const *labels, size_t n)
{
    bool same = set->n_labels == n;
    for (size_t i = 0; same && i < n; i++) {
        same = strcmp(set->labels[i], labels[i]) == 0;
    }
    return same;
}

static bool has_all(const struct placement_supply *nodes, const char *const *labels, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n && found == i; i++) {
        for (size_t at = 0; at < nodes->n_bytes; at += strlen(nodes->labels + at) + 1) {
            found += strcmp(nodes->labels + at, labels[i]) == 0;
        }
    }
    return found == n;
}

/* The set with these labels; NULL: there are too many. */
static struct set *set_of(struct scale *s, const char *const *labels, size_t n)
{
    for (size_t i = 0; i < s->n_sets; i++) {
        if (is_same(&s->sets[i], labels, n)) {
            return &s->sets[i];
        }
    }
    if (s->n_sets == SETS_MAX) {
        return NULL;
    }
    struct set *set = &s->sets[s->n_sets++];
    *set = (struct set){.n_labels = n};
    for (size_t i = 0; i < n; i++) {
        set->labels[i] = labels[i];
    }
    return set;
}

static size_t labels_of(const struct placement *p, size_t at, uint8_t tasks,
                        const char *ret[PLACEMENT_LABELS_MAX])
{
    size_t cursor = 0;
    size_t n = 0;
    const char *label;
    while (n < PLACEMENT_LABELS_MAX && (label = placement_label(p, at, tasks, &cursor))) {
        ret[n++] = label;
    }
    qsort(ret, n, sizeof(*ret), in_order);
    return n;
}

static void digest_add(uint64_t *digest, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) { /* FNV-1a */
        *digest = (*digest ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    }
}

static void digest_demand(uint64_t *digest, const struct placement_demand *d)
{
    digest_add(digest, d->job, strlen(d->job) + 1);
    digest_add(digest, &d->tasks, sizeof(d->tasks));
    digest_add(digest, &d->max, sizeof(d->max));
}

/* Nodes with all the labels that have come so far; … that are idle. */
static uint64_t came(const struct placement *p, const char *const *labels, size_t n,
                     uint32_t *ret_idle)
{
    struct placement_supply nodes;
    uint64_t sum = 0;
    *ret_idle = 0;
    for (uint32_t c = 0; c < PLACEMENT_CLASSES_MAX; c++) {
        if (placement_supply(p, c, &nodes) && has_all(&nodes, labels, n)) {
            sum += nodes.came;
            *ret_idle += nodes.idle;
        }
    }
    return sum;
}

static bool will_have_all(const struct pending *p, const struct set *set)
{
    size_t found = 0;
    for (size_t i = 0; i < p->n_labels && found < set->n_labels; i++) { /* both are in order */
        found += strcmp(p->labels[i], set->labels[found]) == 0;
    }
    return found == set->n_labels;
}

static void count_supply(struct scale *s)
{
    for (size_t i = 0; i < s->n_sets; i++) {
        struct set *set = &s->sets[i];
        (void)came(s->placement, set->labels, set->n_labels, &set->idle);
        for (size_t p = 0; p < s->n_pending; p++) {
            set->pending += will_have_all(&s->pending[p], set) ? s->pending[p].left : 0;
        }
    }
}

static void count_demand(struct scale *s)
{
    struct placement_demand rows[PLACEMENT_TASKS];
    const char *labels[PLACEMENT_LABELS_MAX];
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    s->n_sets = 0;
    for (size_t at = 0; at < placement_jobs(s->placement); at++) {
        const size_t n_rows = placement_demand(s->placement, at, rows);
        for (size_t i = 0; i < n_rows; i++) {
            const size_t n = labels_of(s->placement, at, rows[i].tasks, labels);
            struct set *set = set_of(s, labels, n);
            digest_demand(&digest, &rows[i]);
            if (set) {
                set->min += rows[i].min;
                set->want += rows[i].max;
                set->have += rows[i].held;
            }
        }
    }
    if (digest != s->digest) {
        s->digest = digest;
        s->again_ms = 0; /* what it said no to was something else */
        const struct tfe_mono soon = tfe_mono_add(clock_mono(), s->settings->wait_ms);
        s->due = tfe_mono_is_never(s->due) ? s->due : tfe_mono_min(s->due, soon);
    }
}

/* What has come, or is not waited for any more. */
static void drop_pending(struct scale *s, bool all)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n_pending; i++) {
        struct pending *p = &s->pending[i];
        uint32_t idle;
        const uint64_t now = all ? 0 : came(s->placement, p->labels, p->n_labels, &idle);
        /* Less than before: labels that no node has any more were forgotten with their count. */
        const uint64_t since = now > p->came ? now - p->came : 0;
        p->left -= since < p->left ? (uint32_t)since : p->left;
        p->came = now;
        if (!all && p->left > 0 && clock_wall().ms < p->until.ms) {
            s->pending[kept++] = *p;
        } else {
            free(p->text);
        }
    }
    s->n_pending = kept;
}

/* Somebody lacks nodes that are not on their way, or nodes have nothing to wait for. */
static bool differs(struct scale *s)
{
    struct placement_supply nodes;
    drop_pending(s, false);
    count_demand(s);
    count_supply(s);
    for (size_t i = 0; i < s->n_sets; i++) {
        const struct set *set = &s->sets[i];
        if ((uint64_t)set->have + set->idle + set->pending < set->want) {
            return true;
        }
    }
    for (uint32_t c = 0; c < PLACEMENT_CLASSES_MAX; c++) {
        if (placement_supply(s->placement, c, &nodes) && nodes.idle > 0 && !nodes.is_wanted) {
            return true;
        }
    }
    return false;
}

/* --- what the command is told ----------------------------------------------------------------- */

static json_t *labels_json(const char *const *labels, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(array, json_string(labels[i])); /* UTF-8 or not there */
    }
    return array;
}

static json_t *tasks_json(uint8_t tasks)
{
    json_t *array = json_array();
#define TASK_JSON(NAME, number, name)                                                              \
    if (tasks >> (number)&1) {                                                                     \
        json_array_append_new(array, json_string(name));                                           \
    }
    TFE_TASKS(TASK_JSON)
#undef TASK_JSON
    return array;
}

/* To each set those who want it. */
static void add_jobs(struct scale *s, json_t *sets)
{
    struct placement_demand rows[PLACEMENT_TASKS];
    const char *labels[PLACEMENT_LABELS_MAX];
    size_t n_jobs = 0;
    for (size_t at = 0; at < placement_jobs(s->placement) && n_jobs < JOBS_MAX; at++) {
        const size_t n_rows = placement_demand(s->placement, at, rows);
        for (size_t i = 0; i < n_rows; i++) {
            const struct placement_demand *d = &rows[i];
            const size_t n = labels_of(s->placement, at, d->tasks, labels);
            const struct set *set = set_of(s, labels, n);
            if (set) {
                n_jobs++;
                json_t *of = json_array_get(sets, (size_t)(set - s->sets));
                json_array_append_new(json_object_get(of, "jobs"),
                                      json_pack("{s:s, s:i, s:o, s:i, s:i, s:i}", "job", d->job,
                                                "priority", (int)d->priority, "tasks",
                                                tasks_json(d->tasks), "min", (int)d->min, "want",
                                                (int)d->max, "have", (int)d->held));
            }
        }
    }
}

static json_t *sets_json(struct scale *s)
{
    json_t *sets = json_array();
    for (size_t i = 0; i < s->n_sets; i++) {
        const struct set *set = &s->sets[i];
        json_array_append_new(sets, json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:[]}", "labels",
                                              labels_json(set->labels, set->n_labels), "min",
                                              (int)set->min, "want", (int)set->want, "have",
                                              (int)set->have, "idle", (int)set->idle, "pending",
                                              (int)set->pending, "jobs"));
    }
    add_jobs(s, sets);
    return sets;
}

static json_t *nodes_json(const struct scale *s)
{
    json_t *array = json_array();
    struct placement_supply nodes;
    for (uint32_t c = 0; c < PLACEMENT_CLASSES_MAX; c++) {
        if (!placement_supply(s->placement, c, &nodes) || nodes.here == 0) {
            continue;
        }
        json_t *labels = json_array();
        for (size_t at = 0; at < nodes.n_bytes; at += strlen(nodes.labels + at) + 1) {
            json_array_append_new(labels, json_string(nodes.labels + at));
        }
        json_t *since = json_null();
        if (!tfe_mono_is_never(nodes.idle_since)) {
            since = json_integer(clock_wall().ms - tfe_mono_sub(clock_mono(), nodes.idle_since));
        }
        json_array_append_new(array, json_pack("{s:o, s:i, s:i, s:o}", "labels", labels, "here",
                                               (int)nodes.here, "idle", (int)nodes.idle,
                                               "idle_since_ms", since));
    }
    return array;
}

/* NULL: no memory, or too much to say even without the jobs. */
static char *request_text(struct scale *s)
{
    json_t *sets = sets_json(s);
    json_t *request = json_pack("{s:I, s:o, s:o}", "deadline_ms",
                                (json_int_t)(clock_wall().ms + s->settings->timeout_ms), "sets",
                                sets, "nodes", nodes_json(s));
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    if (text && strlen(text) > SCALE_TEXT_MAX) {
        for (size_t i = 0; i < json_array_size(sets); i++) {
            json_object_del(json_array_get(sets, i), "jobs");
        }
        free(text);
        text = json_dumps(request, JSON_COMPACT);
    }
    json_decref(request);
    if (text && strlen(text) > SCALE_TEXT_MAX) {
        free(text);
        text = NULL;
    }
    return text;
}

/* --- what it says ----------------------------------------------------------------------------- */

/* Its labels, in order. False: they are none, or there is no memory. */
static bool take_labels(struct pending *p, json_t *labels)
{
    size_t bytes = 1;
    size_t at = 0;
    const size_t n = json_array_size(labels);
    for (size_t i = 0; i < n; i++) {
        bytes += json_string_length(json_array_get(labels, i)) + 1;
    }
    p->text = n <= PLACEMENT_LABELS_MAX ? malloc(bytes) : NULL;
    for (size_t i = 0; p->text && i < n; i++) {
        const json_t *label = json_array_get(labels, i);
        if (!json_is_string(label)) {
            return false;
        }
        p->labels[i] = p->text + at;
        memcpy(p->text + at, json_string_value(label), json_string_length(label) + 1);
        at += json_string_length(label) + 1;
    }
    p->n_labels = p->text ? n : 0;
    qsort(p->labels, p->n_labels, sizeof(*p->labels), in_order);
    return p->text != NULL;
}

/* One of "pending". False: it makes no sense. */
static bool take_pending(struct scale *s, json_t *of)
{
    json_t *labels = json_object_get(of, "labels");
    json_t *nodes = json_object_get(of, "nodes");
    json_t *until = json_object_get(of, "until_ms");
    const json_int_t n = json_integer_value(nodes);
    const int64_t latest = clock_wall().ms + UNTIL_MAX_MS;
    uint32_t idle;
    if (!json_is_array(labels) || !json_is_integer(nodes) || n < 0 || n > PENDING_NODES_MAX ||
        !json_is_integer(until) || s->n_pending == PENDING_MAX) {
        return false;
    }
    struct pending p = {
        .nodes = (uint32_t)n, .left = (uint32_t)n, .until.ms = json_integer_value(until)};
    p.until.ms = p.until.ms < latest ? p.until.ms : latest;
    const bool is_read = take_labels(&p, labels);
    p.came = is_read ? came(s->placement, p.labels, p.n_labels, &idle) : 0;
    s->pending[s->n_pending++] = p; /* to be freed in any case */
    return is_read;
}

/* What is on its way, in place of what was. NULL, or what is wrong with it: nothing is, then. */
static const char *take_answer(struct scale *s, const char *text)
{
    json_error_t error;
    json_t *answer =
        text[strspn(text, " \t\r\n")] == '\0' ? json_object() : json_loads(text, 0, &error);
    json_t *pending = json_object_get(answer, "pending");
    bool is_read = json_is_object(answer) && (!pending || json_is_array(pending));
    drop_pending(s, true);
    for (size_t i = 0; is_read && i < json_array_size(pending); i++) {
        is_read = take_pending(s, json_array_get(pending, i));
    }
    if (!is_read) {
        drop_pending(s, true);
    }
    json_decref(answer);
    return is_read ? NULL : "it answers no {\"pending\": [{\"labels\", \"nodes\", \"until_ms\"}]}";
}

static const char *fault_of(struct scale *s, char room[64])
{
    switch (s->answer.end) {
    case 0:
        return take_answer(s, s->answer.text);
    case SCALE_LATE:
        (void)snprintf(room, 64, "it took longer than %u ms", (unsigned)s->settings->timeout_ms);
        return room;
    case SCALE_BUSY:
        return "the one of a server before still runs";
    case SCALE_NOT_STARTED:
        return "it could not be started";
    default:
        (void)snprintf(room, 64, "its exit status is %d", (int)s->answer.end);
        return room;
    }
}

static void tell(struct scale *s, const char *fault)
{
    const int64_t took = tfe_mono_sub(clock_mono(), s->began);
    uint32_t n = 0;
    for (size_t i = 0; i < s->n_pending; i++) {
        n += s->pending[i].nodes;
    }
    if (fault) {
        const struct msg_event_row row = {.kind = "scaled", .level = EVENT_WARN};
        log_warn("scale_failed", LOG_S("why", fault), LOG_I("ms", took),
                 LOG_U("again_ms", s->again_ms));
        if (!s->is_failing) {
            events_addf(s->events, &row, "the scale command has failed: %s", fault);
        }
    } else {
        const struct msg_event_row row = {.kind = "scaled"};
        log_info("scale_ran", LOG_U("pending", n), LOG_I("ms", took));
        if (n > 0 || s->is_failing) {
            events_addf(s->events, &row, "the scale command was run: %u %s on the way", (unsigned)n,
                        n == 1 ? "machine is" : "machines are");
        }
    }
    s->is_failing = fault != NULL;
}

static void on_answer(evutil_socket_t fd, short what, void *ctx)
{
    struct scale *s = ctx;
    char room[64];
    (void)what;
    const ssize_t n = recv(fd, &s->answer, sizeof(s->answer) - 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n < (ssize_t)SCALE_ANSWER_HEAD) {
        log_error("scale_ended", LOG_S("effect", "the scale command is run no more"));
        (void)event_del(s->answered);
        (void)event_del(s->timer);
        return;
    }
    s->answer.text[(size_t)n - SCALE_ANSWER_HEAD] = '\0';
    s->runs = false;
    const char *fault = fault_of(s, room);
    const uint32_t first = s->settings->wait_ms > LOOK_MS ? s->settings->wait_ms : LOOK_MS;
    s->again_ms = backoff_next(s->again_ms, first, AGAIN_MAX_MS);
    s->due = tfe_mono_add(clock_mono(), s->again_ms);
    tell(s, fault);
}

/* --- when ------------------------------------------------------------------------------------- */

static void run(struct scale *s)
{
    char *text = request_text(s);
    s->began = clock_mono();
    s->runs = text && send(s->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
    if (!s->runs) {
        s->again_ms = backoff_next(s->again_ms, LOOK_MS, AGAIN_MAX_MS);
        s->due = tfe_mono_add(clock_mono(), s->again_ms);
        log_warn("scale_failed", LOG_S("why", text ? strerror(errno) : "there is too much to say"),
                 LOG_U("again_ms", s->again_ms));
    }
    free(text);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct scale *s = ctx;
    const uint32_t wait = s->settings->wait_ms;
    (void)fd;
    (void)what;
    (void)timer_after(s->timer, wait < LOOK_MS ? wait / 4 + 10 : LOOK_MS);
    if (s->runs) {
        return;
    }
    if (!differs(s)) {
        s->due = TFE_MONO_NEVER;
        s->again_ms = 0;
    } else if (tfe_mono_is_never(s->due)) {
        s->due = tfe_mono_add(clock_mono(), wait);
    } else if (!tfe_mono_before(clock_mono(), s->due)) {
        run(s);
    }
}

int scale_new(struct event_base *base, const struct pool *pool, struct events *events,
              const struct scale_settings *settings, int fd, struct scale **ret)
{
    struct scale *s = calloc(1, sizeof(*s));
    if (!s) {
        return TFE_ENOMEM;
    }
    s->placement = pool_placement(pool);
    s->events = events;
    s->settings = settings;
    s->fd = fd;
    s->due = TFE_MONO_NEVER;
    s->timer = evtimer_new(base, on_timer, s);
    s->answered = event_new(base, fd, EV_READ | EV_PERSIST, on_answer, s);
    if (!s->timer || !s->answered || event_add(s->answered, NULL) != 0 ||
        timer_after(s->timer, 0) != 0) {
        scale_free(s);
        return TFE_ENOMEM;
    }
    *ret = s;
    return 0;
}

void scale_free(struct scale *s)
{
    if (!s) {
        return;
    }
    drop_pending(s, true);
    event_drop(&s->timer);
    event_drop(&s->answered);
    free(s);
}
