/* tests/unit/server/pool_bench.c: see pool_bench.h. */
#include "tests/unit/server/pool_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "server/events/agent_reports.h"
#include "server/events/event_log.h"
#include "server/jobs/bundles.h"
#include "server/query/operator.h"
#include "server/store/store.h"
#include "server/store/writer.h"
#include "tests/unit/fake_clock.h"

struct pool_bench bench;

static uint64_t first; /* assignment numbers are shown relative to this number */

static struct {
    writer_result_fn fn;
    void *ctx;
    struct bench_row row;
    bool is_gone;
} asks[16];

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    const size_t n = strlen(bench.said);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(bench.said + n, sizeof bench.said - n, format, args);
    va_end(args);
}

static uint64_t told(uint64_t assignment)
{
    return assignment > first ? assignment - first : assignment;
}

/* --- sessions --------------------------------------------------------------------------------- */

static unsigned number_of(const struct session *s)
{
    return (unsigned)(s - bench.sessions);
}

void __wrap_session_send(struct session *s, const struct tfe_msg *msg);
void __wrap_session_send(struct session *s, const struct tfe_msg *msg)
{
    say("%u:", number_of(s));
    if (msg->type == MSG_ASSIGN) {
        const struct msg_assign *a = &msg->u.assign;
        say("assign %llu %s %s", (unsigned long long)told(a->assignment), a->spec.name,
            a->has_role ? msg_task_name(a->role) : "any");
    } else if (msg->type == MSG_RELEASE) {
        const struct msg_release *r = &msg->u.release;
        say("release %llu %ums %s%s%s", (unsigned long long)told(r->assignment),
            (unsigned)r->within_ms, r->says, r->over ? " OVER" : "",
            r->out != OUT_NOT ? " OUT" : "");
    } else if (msg->type == MSG_WELCOME) {
        const struct msg_welcome *w = &msg->u.welcome;
        say("welcome %s %u %u %u %u", w->node, (unsigned)w->ttl_ms, (unsigned)w->fence_ms,
            (unsigned)w->renew_ms, (unsigned)w->spread_ms);
    } else if (msg->type == MSG_RENEWED) {
        say("renewed %llu %u %u", (unsigned long long)msg->u.renewed.number,
            (unsigned)msg->u.renewed.ttl_ms, (unsigned)msg->u.renewed.fence_ms);
    } else {
        say("%s", msg_type_name(msg->type));
    }
    say("; ");
}

/* The pool's tests set no quotas. */
void __wrap_keyring_watch_quotas(struct keyring *ring, keyring_quota_fn *fn, void *ctx);
void __wrap_keyring_watch_quotas(struct keyring *ring, keyring_quota_fn *fn, void *ctx) {}

void __wrap_session_refuse(struct session *s, enum tfe_refusal code, const char *sentence);
void __wrap_session_refuse(struct session *s, enum tfe_refusal code, const char *sentence)
{
    say("%u:refused %s (%s); ", number_of(s), msg_refusal_name(code), sentence);
}

void __wrap_session_finish(struct session *s);
void __wrap_session_finish(struct session *s)
{
    s->phase = SESSION_LEAVING;
    say("%u:end; ", number_of(s));
}

void __wrap_events_report(struct events *e, const struct msg_event_row *row, const char *format,
                          ...) __attribute__((format(printf, 3, 4)));
void __wrap_events_report(struct events *e, const struct msg_event_row *row, const char *format,
                          ...)
{
    size_t n = strlen(bench.events);
    va_list args;
    n +=
        (size_t)snprintf(bench.events + n, sizeof bench.events - n, "%s %s: ", row->job, row->kind);
    va_start(args, format);
    (void)vsnprintf(bench.events + n, sizeof bench.events - n, format, args);
    va_end(args);
    (void)strncat(bench.events, "; ", sizeof bench.events - strlen(bench.events) - 1);
}

/* --- fake core -------------------------------------------------------------------------------- */

static struct bench_core *core_find(const char *job)
{
    for (size_t i = 0; i < BENCH_JOBS; i++) {
        if (bench.core[i].job && strcmp(bench.core[i].job, job) == 0) {
            return bench.core[i].state ? &bench.core[i] : NULL;
        }
    }
    return NULL;
}

const char *__wrap_rdzv_run_key(const struct rdzv *r, const char *job);
const char *__wrap_rdzv_run_key(const struct rdzv *r, const char *job)
{
    const struct bench_core *core = core_find(job);
    return !core ? "" : core->run_key ? core->run_key : pool_job_find(bench.p, job)->run_key.text;
}

int __wrap_rdzv_find_job(const struct rdzv *r, const char *name, struct msg_status_job *ret);
int __wrap_rdzv_find_job(const struct rdzv *r, const char *name, struct msg_status_job *ret)
{
    const struct bench_core *core = core_find(name);
    if (!core) {
        return TFE_ENOENT;
    }
    *ret =
        (struct msg_status_job){.job = core->job, .phase = core->state, .members = core->members};
    for (unsigned i = STATE_WAITING; i <= STATE_SET_ASIDE; i++) {
        if (strcmp(msg_job_state_name((enum tfe_job_state)i), core->state) == 0) {
            ret->state = (enum tfe_job_state)i;
        }
    }
    assert_int_not_equal(ret->state, 0);
    return 0;
}

struct rdzv_outcome __wrap_rdzv_outcome(const struct rdzv *r, const char *job);
struct rdzv_outcome __wrap_rdzv_outcome(const struct rdzv *r, const char *job)
{
    const struct bench_core *core = core_find(job);
    return core ? core->outcome : (struct rdzv_outcome){.lingers = false};
}

void __wrap_rdzv_view_waits(const struct rdzv *r, struct msg_status_job *job,
                            char room[MSG_SENTENCE_MAX]);
void __wrap_rdzv_view_waits(const struct rdzv *r, struct msg_status_job *job,
                            char room[MSG_SENTENCE_MAX])
{
}

void __wrap_rdzv_view_reason(const struct rdzv *r, struct msg_status_job *job,
                             char room[MSG_SENTENCE_MAX]);
void __wrap_rdzv_view_reason(const struct rdzv *r, struct msg_status_job *job,
                             char room[MSG_SENTENCE_MAX])
{
    const struct bench_core *core = core_find(job->job);
    (void)snprintf(room, MSG_SENTENCE_MAX, "%s", core && core->reason ? core->reason : "");
    job->reason = room[0] != '\0' ? room : NULL;
}

int __wrap_rdzv_find_node(const struct rdzv *r, const struct principal *by, const char *name,
                          struct rdzv_found *ret);
int __wrap_rdzv_find_node(const struct rdzv *r, const struct principal *by, const char *name,
                          struct rdzv_found *ret)
{
    *ret = bench.found;
    return bench.find;
}

void __wrap_reports_show_job(const struct reports *all, struct msg_status_job *row);
void __wrap_reports_show_job(const struct reports *all, struct msg_status_job *row)
{
    const struct bench_core *core = core_find(row->job);
    row->has_steps_per_s = core && core->steps_per_s > 0;
    row->steps_per_s = core ? core->steps_per_s : 0;
}

void __wrap_operator_execute(const struct rdzv *core, operator_step_fn step, void *ctx,
                             const struct principal *by, const struct tfe_msg *order,
                             struct operator_response *ret);
void __wrap_operator_execute(const struct rdzv *core, operator_step_fn step, void *ctx,
                             const struct principal *by, const struct tfe_msg *order,
                             struct operator_response *ret)
{
    say("core:%s %s", msg_type_name(order->type), msg_job(order));
    if (order->type == MSG_SCALE) {
        const struct msg_scale *r = &order->u.scale;
        say(" %u:%u ps %d", (unsigned)r->min_nodes, (unsigned)r->max_nodes, (int)r->n_ps);
    }
    say("; ");
    ret->msg = (struct tfe_msg){.type = MSG_DONE};
    if (bench.core_refuses) {
        ret->msg = (struct tfe_msg){.type = MSG_REFUSED,
                                    .u.refused = {REFUSAL_BAD_REQUEST, "the core does not"}};
    }
}

static int on_order(void *ctx, const struct rdzv_event *event)
{
    say("core:%s %s; ",
        event->type == RDZV_STOP_JOB ? "stop"
        : event->type == RDZV_FORGET ? "forget"
                                     : "?",
        event->job);
    return bench.core_steps;
}

static const struct session_ops ops = {.order = on_order};

/* --- fake disk -------------------------------------------------------------------------------- */

/* Unpacks the conditions and nodes of a row into text, one line each, so that tests can read and
 * change them. */
static void unpack_row(struct bench_row *row, const uint8_t *bytes, size_t n)
{
    struct pack k = {.in = bytes, .n = n};
    const char *run_key = "";
    const uint8_t *spec = NULL;
    uint32_t n_conditions = 0;
    size_t at = 0;
    pack_text(&k, &run_key);
    pack_bytes(&k, &spec, &row->n_spec);
    pack_wall(&k, &row->started);
    pack_u32(&k, &n_conditions);
    (void)snprintf(row->run_key, sizeof row->run_key, "%s", run_key);
    row->spec = malloc(row->n_spec + 1);
    assert_non_null(row->spec);
    memcpy(row->spec, spec, row->n_spec);
    row->conditions[0] = '\0';
    for (uint32_t i = 0; i < n_conditions; i++) {
        uint32_t number = 0;
        bool status = false;
        struct tfe_wall since = {.ms = 0};
        const char *reason = "";
        const char *says = "";
        pack_u32(&k, &number);
        pack_bool(&k, &status);
        pack_wall(&k, &since);
        pack_text(&k, &reason);
        pack_text(&k, &says);
        at += (size_t)snprintf(row->conditions + at, sizeof row->conditions - at,
                               "%s %d %lld %s %s\n",
                               pool_condition_name(number, (char[CONDITION_NAME_MAX]){0}), status,
                               (long long)since.ms, reason, says);
    }
    row->nodes[0] = '\0';
    for (at = 0; k.at < k.n && k.rc == 0;) {
        const char *id = "";
        uint64_t assignment = 0;
        uint32_t task = 0;
        pool_job_pack_node(&k, &id, &assignment, &task);
        at += (size_t)snprintf(row->nodes + at, sizeof row->nodes - at, "%s %llu %u\n", id,
                               (unsigned long long)assignment, (unsigned)task);
    }
    assert_int_equal(k.rc, 0);
}

static struct pack pack_row(const struct bench_row *row)
{
    struct pack k = {.n = 0};
    const char *run_key = row->run_key;
    const uint8_t *spec = row->spec;
    size_t n_spec = row->n_spec;
    struct tfe_wall started = row->started;
    uint32_t n_conditions = 0;
    for (const char *c = row->conditions; *c != '\0'; c++) {
        n_conditions += *c == '\n';
    }
    pack_text(&k, &run_key);
    pack_bytes(&k, &spec, &n_spec);
    pack_wall(&k, &started);
    pack_u32(&k, &n_conditions);
    const char *line = row->conditions;
    for (uint32_t i = 0; i < n_conditions; i++, line = strchr(line, '\n') + 1) {
        char name[16];
        char reason[40];
        char says[256] = "";
        const char *texts[] = {reason, says};
        int status;
        long long since;
        uint32_t number = 0;
        assert_in_range(
            sscanf(line, "%15s %d %lld %39s%*1[ ]%255[^\n]", name, &status, &since, reason, says),
            4, 5);
        while (strcmp(pool_condition_name(number, (char[CONDITION_NAME_MAX]){0}), name) != 0) {
            number++;
        }
        bool flag = status != 0;
        struct tfe_wall at = {.ms = since};
        pack_u32(&k, &number);
        pack_bool(&k, &flag);
        pack_wall(&k, &at);
        pack_text(&k, &texts[0]);
        pack_text(&k, &texts[1]);
    }
    char id[64];
    unsigned long long number;
    unsigned task;
    int used;
    for (line = row->nodes; sscanf(line, "%63s %llu %u\n%n", id, &number, &task, &used) == 3;
         line += used) {
        const char *node = id;
        uint64_t assignment = number;
        uint32_t of = task;
        pool_job_pack_node(&k, &node, &assignment, &of);
    }
    assert_int_equal(k.rc, 0);
    return k;
}

int __wrap_writer_put_submission(struct writer *w, const struct store_submission *row,
                                 writer_result_fn fn, void *ctx, struct writer_request **ret);
int __wrap_writer_put_submission(struct writer *w, const struct store_submission *row,
                                 writer_result_fn fn, void *ctx, struct writer_request **ret)
{
    if (!bench.takes_row) {
        return TFE_ENOMEM;
    }
    assert_in_range(bench.waiting, 0, sizeof asks / sizeof asks[0] - 1);
    struct bench_row *copy = &asks[bench.waiting].row;
    asks[bench.waiting].fn = fn;
    asks[bench.waiting].ctx = ctx;
    asks[bench.waiting].is_gone = row->is_gone;
    (void)snprintf(copy->job, sizeof copy->job, "%s", row->job);
    copy->number = row->number;
    unpack_row(copy, row->bytes, row->n);
    bench.waiting++;
    *ret = (struct writer_request *)copy;
    return 0;
}

struct bench_row *bench_row(const char *job)
{
    for (size_t i = 0; i < BENCH_JOBS; i++) {
        if (bench.rows[i].is_there && strcmp(bench.rows[i].job, job) == 0) {
            return &bench.rows[i];
        }
    }
    return NULL;
}

const char *bench_nodes(const char *job)
{
    static char text[512];
    char node[64];
    unsigned long long assignment;
    int n = 0;
    int used;
    text[0] = '\0';
    for (const char *at = bench_row(job)->nodes;
         sscanf(at, "%63s %llu %*d\n%n", node, &assignment, &used) == 2; at += used) {
        n += snprintf(text + n, sizeof text - (size_t)n, "%s=%llu ", node,
                      (unsigned long long)told(assignment));
    }
    return text;
}

static void put(const struct bench_row *row, bool is_gone)
{
    struct bench_row *at = bench_row(row->job);
    for (size_t i = 0; !at && i < BENCH_JOBS; i++) {
        at = bench.rows[i].is_there ? NULL : &bench.rows[i];
    }
    assert_non_null(at);
    free(at->spec);
    *at = *row;
    at->is_there = !is_gone;
}

void bench_durable_once(void)
{
    const writer_result_fn fn = asks[0].fn;
    void *ctx = asks[0].ctx;
    const int rc = bench.disk;
    if (rc == 0) {
        put(&asks[0].row, asks[0].is_gone);
    } else {
        free(asks[0].row.spec);
    }
    bench.waiting--;
    memmove(asks, asks + 1, bench.waiting * sizeof asks[0]);
    fn(ctx, rc, NULL, rc == 0 ? "" : "the disk is full");
}

int __wrap_store_read_submissions(struct store *store,
                                  int (*fn)(void *ctx, const struct store_submission *row),
                                  void *ctx, struct tfe_reason *reason);
int __wrap_store_read_submissions(struct store *store,
                                  int (*fn)(void *ctx, const struct store_submission *row),
                                  void *ctx, struct tfe_reason *reason)
{
    int rc = 0;
    for (uint64_t number = 0; rc == 0 && number < 100; number++) {
        for (size_t i = 0; rc == 0 && i < BENCH_JOBS; i++) {
            const struct bench_row *row = &bench.rows[i];
            if (row->is_there && row->number == number) {
                struct pack packed = pack_row(row);
                rc = fn(ctx, &(struct store_submission){.job = row->job,
                                                        .number = row->number,
                                                        .bytes = packed.out,
                                                        .n = packed.n});
                free(packed.out);
            }
        }
    }
    return rc;
}

int __wrap_bundles_new(const struct bundles_config *config, struct bundles **ret);
int __wrap_bundles_new(const struct bundles_config *config, struct bundles **ret)
{
    *ret = NULL;
    return 0;
}

void __wrap_bundles_free(struct bundles *b);
void __wrap_bundles_free(struct bundles *b) {}

/* --- set-up and restart ----------------------------------------------------------------------- */

static void start(void)
{
    struct tfe_reason reason;
    const struct pool_config config = {.base = bench.base,
                                       .ops = &ops,
                                       .incarnation = 7,
                                       .ttl_ms = BENCH_TTL_MS,
                                       .max_restarts = BENCH_RESTARTS};
    assert_int_equal(pool_new(&config, &bench.p), 0);
    bench.all.pool = bench.p;
    for (unsigned i = 0; i < BENCH_SESSIONS; i++) {
        bench.sessions[i] =
            (struct session){.all = &bench.all, .phase = SESSION_OPEN, .by = &bench.agent};
    }
    assert_int_equal(pool_load(bench.p, NULL, &reason), 0);
    pool_keep(bench.p, (struct writer *)&bench);
}

int bench_begin(void **state)
{
    (void)state;
    memset(&bench, 0, sizeof bench);
    fake_clock_init();
    bench.base = event_base_new();
    assert_non_null(bench.base);
    bench.takes_row = true;
    bench.find = TFE_ENOENT;
    bench.agent = (struct principal){.role = PRINCIPAL_AGENT, .scope = PRINCIPAL_EVERY_JOB};
    bench.admin = (struct principal){.role = PRINCIPAL_ADMIN, .scope = PRINCIPAL_EVERY_JOB};
    bench.someone = (struct principal){.role = PRINCIPAL_ADMIN, .scope = "a-*"};
    first = (uint64_t)clock_wall().ms * 1000;
    start();
    return 0;
}

static void stop(void)
{
    pool_free(bench.p);
    for (; bench.waiting > 0; bench.waiting--) {
        free(asks[bench.waiting - 1].row.spec);
    }
}

int bench_end(void **state)
{
    (void)state;
    stop();
    for (size_t i = 0; i < BENCH_JOBS; i++) {
        free(bench.rows[i].spec);
    }
    event_base_free(bench.base);
    return 0;
}

void bench_restart(void)
{
    stop();
    bench_pass(1);
    start();
}

void bench_pass(int64_t ms)
{
    fake_clock_pass(bench.base, ms);
}

void bench_turn(void)
{
    bench_pass(0);
}

void bench_durable(void)
{
    bench_turn();
    for (int i = 0; bench.waiting > 0 && i < 100; i++) {
        bench_durable_once();
        bench_turn();
    }
}

static const char *taken(char *from, size_t size)
{
    static char last[8192];
    (void)snprintf(last, sizeof last, "%s", from);
    memset(from, 0, size);
    return last;
}

const char *bench_said(void)
{
    return taken(bench.said, sizeof bench.said);
}

const char *bench_events(void)
{
    return taken(bench.events, sizeof bench.events);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static const char *const ids[BENCH_SESSIONS] = {"n0", "n1", "n2", "n3", "n4"};
static const char *const names[BENCH_SESSIONS] = {"host-0", "host-1", "host-2", "host-3", "host-4"};

void bench_came(unsigned i, const char *label, uint64_t assignment)
{
    const struct tfe_msg msg = {.type = MSG_POOL,
                                .u.pool = {.node = ids[i],
                                           .node_name = names[i],
                                           .labels = &label,
                                           .n_labels = label ? 1 : 0,
                                           .assignment = assignment == 0 ? 0 : first + assignment}};
    pool_handle_message(bench.p, &bench.sessions[i], &msg);
}

void bench_freed(unsigned i, uint64_t assignment, uint32_t code)
{
    const struct tfe_msg msg = {
        .type = MSG_FREED,
        .u.freed = {.assignment = first + assignment, .code = code, .says = "it said so"}};
    pool_handle_message(bench.p, &bench.sessions[i], &msg);
}

void bench_renews(unsigned i)
{
    const struct tfe_msg msg = {.type = MSG_RENEW, .u.renew.number = 5};
    pool_handle_message(bench.p, &bench.sessions[i], &msg);
}

void bench_left(unsigned i)
{
    pool_left(&bench.sessions[i]);
    /* The session is reused for the node's next connection. */
    bench.sessions[i].phase = SESSION_OPEN;
}

struct pool_node *bench_node(unsigned i)
{
    return pool_node_find(bench.p, ids[i]);
}

/* --- orders ----------------------------------------------------------------------------------- */

struct msg_spec bench_spec(const char *name, uint32_t min, uint32_t max)
{
    static const char *const argv[] = {"python", "train.py"};
    return (struct msg_spec){.name = name,
                             .priority = MSG_UNSET,
                             .min_nodes = min,
                             .max_nodes = max,
                             .nproc = 1,
                             .argv = argv,
                             .n_argv = 2,
                             .source = "",
                             .backoff_limit = MSG_UNSET,
                             .ttl_after_finished_ms = MSG_UNSET,
                             .restart_policies = MSG_UNSET};
}

void bench_on_wake(void *ctx)
{
    *(bool *)ctx = true;
}

const char *bench_order(const struct principal *by, struct tfe_msg order)
{
    static char answer[MSG_SENTENCE_MAX + 32];
    struct tfe_msg msg;
    struct rows *rows;
    bool is_woken = false;
    assert_int_equal(rows_pool_order(bench.p, by, &order, &rows), 0);
    assert_non_null(rows);
    rows_on_wake(rows, bench_on_wake, &is_woken);
    int rc = rows_next(rows, &msg);
    if (rc == TFE_EMORE) { /* the order waits for the disk */
        bench_turn();
        assert_false(is_woken);
        bench_durable();
        if (!is_woken) { /* the pool retries a write that failed shortly before */
            bench_pass(POOL_CHECK_MS);
            bench_durable();
        }
        assert_true(is_woken);
        rc = rows_next(rows, &msg);
    }
    assert_int_equal(rc, 0);
    (void)snprintf(answer, sizeof answer, "%s", "done");
    if (msg.type == MSG_REFUSED) {
        (void)snprintf(answer, sizeof answer, "%s: %s", msg_refusal_name(msg.u.refused.code),
                       msg.u.refused.sentence);
    }
    rows_free(rows);
    return answer;
}

const char *bench_submit(struct msg_spec spec)
{
    return bench_order(&bench.admin, (struct tfe_msg){.type = MSG_SUBMIT, .u.submit.spec = spec});
}

static char answer_text[8192];

static void __attribute__((format(printf, 1, 2))) add_line(const char *format, ...)
{
    const size_t n = strlen(answer_text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(answer_text + n, sizeof answer_text - n, format, args);
    va_end(args);
}

static void add_job(const char *name)
{
    struct pool_texts texts;
    struct msg_status_job row;
    const bool is_in_core = __wrap_rdzv_find_job(NULL, name, &row) == 0;
    if (pool_show_job(bench.p, name, is_in_core, &texts, &row)) {
        add_line("job %s %s p%u %u:%u nodes %u cmd %s %s waits %s\n", row.job,
                 msg_job_state_name(row.state), (unsigned)row.priority, (unsigned)row.min_nodes,
                 (unsigned)row.max_nodes, (unsigned)row.n_assigned, row.argv[0], row.argv[1],
                 row.waits ? row.waits : "-");
    } else {
        add_line("not the pool's\n");
    }
}

static void add_nodes(const char *job)
{
    struct tfe_id after = {.text = ""};
    struct msg_pool_row row;
    while (pool_show_node(bench.p, job, &after, &row)) {
        add_line("node %s %s [%s] %s of %s as %s\n", row.node, row.name, row.labels, row.state,
                 row.job, row.has_role ? msg_task_name(row.role) : "any");
    }
}

const char *bench_jobs(void)
{
    answer_text[0] = '\0';
    for (const char *name = NULL; (name = pool_next_job(bench.p, name));) {
        add_job(name);
    }
    return answer_text;
}

const char *bench_all_nodes(void)
{
    answer_text[0] = '\0';
    add_nodes(NULL);
    return answer_text;
}

const char *bench_described(const char *job)
{
    struct msg_condition_row row;
    char room[16];
    unsigned at = 0;
    answer_text[0] = '\0';
    add_job(job);
    while (pool_show_condition(bench.p, job, &at, room, &row)) {
        add_line("%s %d %s\n", row.name, row.status, row.reason);
    }
    add_nodes(job);
    return answer_text;
}

struct bench_core *bench_core_is(const char *job, const char *state)
{
    struct bench_core *core = NULL;
    for (size_t i = 0; i < BENCH_JOBS && !core; i++) {
        if (!bench.core[i].job || strcmp(bench.core[i].job, job) == 0) {
            core = &bench.core[i];
        }
    }
    assert_non_null(core);
    core->job = job;
    core->state = state;
    pool_trace(bench.p, &(struct rdzv_trace){.kind = TRACE_JOB_STATE, .job = job});
    return core;
}

const char *bench_state(const char *job)
{
    const struct pool_job *found = pool_job_find(bench.p, job);
    return found ? msg_job_state_name(pool_job_state(found)) : "gone";
}

void bench_said_is(const char *expected)
{
    assert_string_equal(bench_said(), expected);
}

void bench_quiet(void)
{
    (void)bench_said();
    (void)bench_events();
}

void bench_placed(struct msg_spec spec)
{
    for (unsigned i = 0; i < spec.max_nodes; i++) {
        bench_came(i, NULL, 0);
    }
    assert_string_equal(bench_submit(spec), "done");
    bench_durable();
    for (unsigned i = 0; i < spec.max_nodes; i++) {
        assert_true(bench_node(i)->is_told);
    }
    bench_quiet();
}
