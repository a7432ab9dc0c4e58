/* tests/unit/agent_core/bench.c: implementation of bench.h. */
#include "tests/unit/agent_core/bench.h"

static void put(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct bench *b, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(b->log + b->n_log, sizeof(b->log) - b->n_log, format, ap);
    va_end(ap);
    assert_true(n >= 0 && (size_t)n < sizeof(b->log) - b->n_log);
    for (int i = 0; i < n; i++) {
        b->history =
            (b->history ^ (unsigned char)b->log[b->n_log + (size_t)i]) * UINT64_C(0x100000001b3);
    }
    b->n_log += (size_t)n;
}

static void put_memory(struct bench *b, const struct msg_memory *memory)
{
    if (memory->has_snapshot) {
        put(b, " kept=%llu/%llu in %llu", (unsigned long long)memory->epoch,
            (unsigned long long)memory->step, (unsigned long long)memory->bytes);
    }
}

static void put_exited(struct bench *b, const struct msg_exited *exited)
{
    put(b, "%llu local=%u code=%u signal=%u%s ", (unsigned long long)exited->epoch,
        exited->local_rank, exited->code, exited->signal, exited->stopped ? " stopped" : "");
    put(b, "%s%s%s", exited->end != ENDING_EXITED ? msg_ending_name(exited->end) : "",
        exited->end != ENDING_EXITED ? " " : "", exited->tail);
}

static void put_msg(struct bench *b, const struct tfe_msg *msg)
{
    put(b, "%s", msg_type_name(msg->type));
    switch ((int)msg->type) {
    case MSG_JOIN:
        put(b, " %s/%s highest=%llu running=%llu", msg->u.join.job, msg->u.join.node,
            (unsigned long long)msg->u.join.highest_epoch,
            (unsigned long long)msg->u.join.running_epoch);
        if (msg->u.join.proof_hash) {
            put(b, " death=%s:%u", msg->u.join.proof_hash, msg->u.join.guard_port);
        }
        if (msg->u.join.restart) {
            put(b, " restart=%llu", (unsigned long long)msg->u.join.restart);
        }
        if (msg->u.join.spec.max_nodes != b->config.spec.max_nodes) {
            put(b, " max=%u", msg->u.join.spec.max_nodes);
        }
        if (msg->u.join.spec.commit) {
            put(b, " commit=%016llx", (unsigned long long)msg->u.join.spec.commit);
        }
        if (msg->u.join.evaluates) {
            put(b, " evaluates");
        }
        if (msg->u.join.new_run) {
            put(b, " new_run");
        }
        if (msg->u.join.fixed_ports) {
            put(b, " fixed_ports");
        }
        if (msg->u.join.tensorflow) {
            put(b, " tensorflow=%s", msg->u.join.tensorflow);
        }
        if (msg->u.join.exited) {
            put(b, " exited=");
            put_exited(b, msg->u.join.exited);
        }
        if (b->shows_running && msg->u.join.running) {
            const struct msg_running *m = msg->u.join.running;
            put(b, " run=%u rank=%u nodes=%u world=%u digest=%llx cause=%s %s", m->run, m->rank,
                m->nodes, m->world, (unsigned long long)m->digest, msg_cause_name(m->cause),
                m->host);
            for (size_t i = 0; i < m->n_ports; i++) {
                put(b, ":%u", m->ports[i]);
            }
        }
        break;
    case MSG_RENEW:
        put(b, " %llu", (unsigned long long)msg->u.renew.number);
        b->renewal = msg->u.renew.number;
        break;
    case MSG_READY:
        put(b, " epoch=%llu %s", (unsigned long long)msg->u.ready.epoch, msg->u.ready.host);
        for (size_t i = 0; i < msg->u.ready.n_ports; i++) {
            put(b, ":%u", msg->u.ready.ports[i]);
        }
        b->ready_digest = msg->u.ready.table_digest;
        put(b, "%s", msg->u.ready.answering ? " answering" : "");
        put_memory(b, &msg->u.ready.memory);
        if (msg->u.ready.tensorflow) {
            put(b, " tensorflow=%s", msg->u.ready.tensorflow);
        }
        break;
    case MSG_LISTENING:
        put(b, " epoch=%llu", (unsigned long long)msg->u.listening.epoch);
        break;
    case MSG_PROGRESS:
        put(b, " epoch=%llu", (unsigned long long)msg->u.progress.epoch);
        if (msg->u.progress.has_step) {
            put(b, " step=%llu", (unsigned long long)msg->u.progress.step);
        }
        if (msg->u.progress.has_saved) {
            put(b, " saved=%llu", (unsigned long long)msg->u.progress.saved_step);
        }
        put(b, " saves=%u answers=%llu%s%s", msg->u.progress.saves,
            (unsigned long long)msg->u.progress.answers, msg->u.progress.listens ? " listens" : "",
            msg->u.progress.alone ? " alone" : "");
        put_memory(b, &msg->u.progress.memory);
        if (msg->u.progress.has_from) {
            put(b, " from=%llu", (unsigned long long)msg->u.progress.from_step);
        }
        if (msg->u.progress.snapshot_answers) {
            put(b, " kept_answers=%llu", (unsigned long long)msg->u.progress.snapshot_answers);
        }
        put(b, "%s", msg->u.progress.ends ? " ends" : "");
        break;
    case MSG_NOTICE:
        put(b, " %s", msg_notice_name(msg->u.notice.kind));
        if (msg->u.notice.deadline_ms != MSG_UNSET) {
            put(b, " in=%u", msg->u.notice.deadline_ms);
        }
        put(b, "%s%s%s", msg->u.notice.withdrawn ? " withdrawn" : "",
            msg->u.notice.uncertain ? " uncertain" : "",
            msg->u.notice.interrupted ? " interrupted" : "");
        break;
    case MSG_GOODBYE:
        put(b, "%s", msg->u.goodbye.interrupted ? " interrupted" : "");
        break;
    case MSG_EXITED:
        put(b, " ");
        put_exited(b, &msg->u.exited);
        if (msg->u.exited.restart) {
            put(b, " restart=%llu", (unsigned long long)msg->u.exited.restart);
        }
        break;
    case MSG_DEATH:
        put(b, " %s", msg->u.death.certificate);
        break;
    case MSG_PROBED:
        put(b, " %llu %s", (unsigned long long)msg->u.probed.probe,
            msg_probe_result_name(msg->u.probed.result));
        break;
    case MSG_PROCESSES:
        put(b, " guard=%u", msg->u.processes.guard_pid);
        for (size_t i = 0; i < msg->u.processes.n_trainer_pids; i++) {
            put(b, " %u", msg->u.processes.trainer_pids[i]);
        }
        break;
    }
    put(b, "\n");
}

static void put_action(struct bench *b, const struct agent_action *action)
{
    const struct agent_trace *trace = &action->trace;
    static const char *const plain[] = {[AGENT_CONNECT] = "CONNECT",
                                        [AGENT_DISCONNECT] = "DISCONNECT",
                                        [AGENT_HANG_UP] = "HANG_UP"};
    switch (action->type) {
    case AGENT_CONNECT:
    case AGENT_DISCONNECT:
    case AGENT_HANG_UP:
        put(b, "%s\n", plain[action->type]);
        break;
    case AGENT_SWEEP:
        put(b, "SWEEP");
        if (action->sweep.planned) {
            put(b, " planned grace=%u", action->sweep.grace_ms);
        }
        put(b, "%s", action->sweep.in_memory ? " in_memory" : "");
        put(b, "\n");
        break;
    case AGENT_SAVE:
        put(b, "SAVE epoch=%llu number=%llu", (unsigned long long)action->save.epoch,
            (unsigned long long)action->save.number);
        if (!tfe_mono_is_never(action->save.deadline)) {
            put(b, " until=%lld", (long long)action->save.deadline.ms);
        }
        put(b, "%s", action->save.in_memory ? " in_memory" : "");
        put(b, "\n");
        break;
    case AGENT_SEND:
        put_msg(b, &action->msg);
        break;
    case AGENT_HOLD_PORTS:
        put(b, "HOLD %llu%s\n", (unsigned long long)action->hold.epoch,
            action->hold.fresh ? " fresh" : "");
        break;
    case AGENT_RESPOND:
        put(b, "ANSWER%s", action->respond.on ? "" : " no");
        for (size_t i = 0; action->respond.on && i < action->respond.n_ports; i++) {
            put(b, " %u", action->respond.ports[i]);
        }
        put(b, "\n");
        break;
    case AGENT_PROBE:
        put(b, "PROBE %llu %s %s %s", (unsigned long long)action->probe->probe,
            msg_probe_kind_name(action->probe->kind), action->probe->node, action->probe->host);
        for (size_t i = 0; i < action->probe->n_ports; i++) {
            put(b, " %u", action->probe->ports[i]);
        }
        put(b, "\n");
        break;
    case AGENT_SPAWN:
        put(b, "SPAWN epoch=%llu run=%u rank=%u restarts=%u",
            (unsigned long long)action->spawn.epoch, action->spawn.run, action->spawn.rank,
            action->spawn.restarts);
        for (size_t i = 0; i < action->spawn.n_rows && i < 8; i++) {
            put(b, " %s:%u", action->spawn.rows[i].host, action->spawn.rows[i].port);
        }
        put(b, "\n");
        break;
    case AGENT_CHECK_OUT:
        put(b, "CHECK_OUT %016llx\n", (unsigned long long)action->commit);
        break;
    case AGENT_FENCE:
        put(b, "FENCE %lld\n", (long long)action->fence.ms);
        break;
    case AGENT_EXIT:
        put(b, "EXIT %d %s\n", action->exit.code,
            action->exit.sentence ? action->exit.sentence : "-");
        b->over = true;
        b->exit_code = action->exit.code;
        break;
    case AGENT_TRACE:
        put(b, "~%s epoch=%llu number=%llu %s\n", agent_trace_format(trace->kind)->name,
            (unsigned long long)trace->epoch,
            (unsigned long long)(trace->kind == AGENT_TRACE_EPOCH ? trace->rank : trace->number),
            trace->text ? trace->text : "-");
        break;
    }
}

int step(struct bench *b, struct agent_event event)
{
    struct agent_actions actions;
    event.now.ms = b->now;
    int rc = agent_step(b->a, &event, &actions);
    if (rc == TFE_ENOMEM && b->retries) {
        assert_int_equal(actions.n, 0);
        assert_int_equal(actions.deadline.ms, b->deadline);
        b->failed++;
        rc = agent_step(b->a, &event, &actions);
    }
    b->deadline = actions.deadline.ms;
    if (rc) {
        assert_int_equal(actions.n, 0);
        return rc;
    }
    for (size_t i = 0; i < actions.n; i++) {
        put_action(b, &actions.v[i]);
    }
    /* A deadline that stays in the past would make the shell spin. */
    bool again = event.type == AGENT_TICK && !b->over && b->deadline <= b->now;
    b->spins = again ? b->spins + 1 : 0;
    assert_true(b->spins < 3);
    return 0;
}

/* --- actions; each clears the log of the previous one --- */

int act(struct bench *b, struct agent_event event)
{
    b->n_log = 0;
    b->log[0] = '\0';
    return step(b, event);
}

void does(struct bench *b, struct agent_event event)
{
    assert_int_equal(act(b, event), 0);
}

void hears(struct bench *b, struct tfe_msg msg)
{
    does(b, (struct agent_event){.type = AGENT_MESSAGE, .msg = &msg});
}

void pass_until(struct bench *b, int64_t until)
{
    b->n_log = 0;
    b->log[0] = '\0';
    while (!b->over && b->deadline <= until) {
        b->now = b->deadline > b->now ? b->deadline : b->now;
        assert_int_equal(step(b, (struct agent_event){.type = AGENT_TICK}), 0);
    }
    b->now = until;
}

void pass(struct bench *b, int64_t ms)
{
    pass_until(b, b->now + ms);
}

void connected(struct bench *b)
{
    does(b, (struct agent_event){.type = AGENT_CONNECTED, .host = "me"});
}

void lost(struct bench *b, enum agent_link how)
{
    does(b, (struct agent_event){.type = AGENT_DISCONNECTED, .lost = {how, "it broke"}});
}

void welcome(struct bench *b)
{
    hears(b, (struct tfe_msg){.type = MSG_WELCOME,
                              .u.welcome = {.node = "n",
                                            .incarnation = 1,
                                            .run = 1,
                                            .ttl_ms = TTL_MS,
                                            .fence_ms = FENCE_MS,
                                            .renew_ms = TTL_MS / 3,
                                            .spread_ms = 400,
                                            .stop_grace_ms = 5000}});
}

void renewed(struct bench *b, uint64_t number)
{
    hears(b, (struct tfe_msg){
                 .type = MSG_RENEWED,
                 .u.renewed = {.number = number, .ttl_ms = TTL_MS, .fence_ms = FENCE_MS}});
}

void pass_answered(struct bench *b, int64_t ms)
{
    int64_t until = b->now + ms;
    uint64_t answered = b->renewal;
    while (!b->over && b->deadline <= until) {
        b->n_log = 0;
        b->now = b->deadline > b->now ? b->deadline : b->now;
        assert_int_equal(step(b, (struct agent_event){.type = AGENT_TICK}), 0);
        if (b->renewal != answered) {
            answered = b->renewal;
            renewed(b, answered);
        }
    }
    b->now = until;
}

void prepare(struct bench *b, uint64_t epoch)
{
    hears(b, (struct tfe_msg){.type = MSG_PREPARE, .u.prepare.epoch = epoch});
}

void ports_held(struct bench *b, uint64_t epoch)
{
    uint16_t ports[MSG_NPROC_MAX];
    for (uint32_t i = 0; i < MSG_NPROC_MAX; i++) {
        ports[i] = (uint16_t)(7000 + i);
    }
    does(b, (struct agent_event){.type = AGENT_PORTS_HELD,
                                 .ports = {epoch, ports, b->config.spec.nproc}});
}

/* Trainers of the other node first, then this node's. */
static const char *const hosts[] = {"p", "p", "p", "p", "me", "me", "me", "me"};

size_t rows_of(const struct bench *b, struct msg_row rows[8])
{
    size_t nproc = b->config.spec.nproc;
    for (size_t i = 0; i < 2 * nproc; i++) {
        rows[i] = (struct msg_row){.rank = (uint32_t)i,
                                   .host = hosts[i < nproc ? 0 : 4],
                                   .port = (uint16_t)(7000 + i % nproc)};
    }
    return 2 * nproc;
}

void table(struct bench *b, uint64_t epoch)
{
    struct msg_row rows[8];
    size_t n = rows_of(b, rows);
    hears(b, (struct tfe_msg){
                 .type = MSG_TABLE,
                 .u.table = {.epoch = epoch, .world = (uint32_t)n, .rows = rows, .n_rows = n}});
}

void start(struct bench *b, uint64_t epoch)
{
    struct msg_row rows[8];
    size_t n = rows_of(b, rows);
    hears(b, (struct tfe_msg){.type = MSG_START,
                              .u.start = {.epoch = epoch,
                                          .run = 1,
                                          .rank = b->config.spec.nproc,
                                          .world = (uint32_t)n,
                                          .nodes = b->nodes ? b->nodes : 2,
                                          .cause = CAUSE_START,
                                          .table_digest = table_digest(rows, n),
                                          .fence_ms = b->fence_of_start}});
}

void stop(struct bench *b, uint64_t epoch)
{
    hears(b, (struct tfe_msg){.type = MSG_STOP, .u.stop.epoch = epoch});
}

void noted(struct bench *b, uint64_t epoch)
{
    hears(b, (struct tfe_msg){.type = MSG_NOTED, .u.noted.epoch = epoch});
}

void trainer_exited(struct bench *b, uint32_t local, uint32_t code, uint32_t signal)
{
    does(b, (struct agent_event){
                .type = AGENT_TRAINER_EXITED,
                .end = {.local_rank = local, .code = code, .signal = signal, .tail = "its tail"}});
}

void swept(struct bench *b)
{
    does(b, (struct agent_event){.type = AGENT_SWEPT});
}

void signalled(struct bench *b, uint32_t signo)
{
    does(b, (struct agent_event){.type = AGENT_SIGNAL, .signo = signo});
}

/* --- queries --- */

int times_seen(const struct bench *b, const char *part)
{
    int n = 0;
    for (const char *p = strstr(b->log, part); p; p = strstr(p + 1, part)) {
        n++;
    }
    return n;
}

/* --- lifetime --- */

/* Those that benches_end frees. */
static struct bench *benches[8];
static size_t n_benches;

struct bench *bench_new(uint32_t nproc, uint64_t seed)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    assert_true(n_benches < sizeof(benches) / sizeof(benches[0]));
    benches[n_benches++] = b;
    b->mem = flaky_mem(&b->flaky);
    b->now = 1000000;
    b->deadline = INT64_MAX;
    b->config = (struct agent_config){.node_name = "label",
                                      .spec = job_of_size(1, 4, nproc),
                                      .pid = 99,
                                      .join_timeout_ms = 600000,
                                      .exit_grace_ms = 60000,
                                      .seed = seed};
    b->config.spec.script_digest = 5;
    assert_int_equal(id_set(&b->config.job, "j"), 0);
    assert_int_equal(id_set(&b->config.node, "n"), 0);
    return b;
}

void begin(struct bench *b)
{
    assert_int_equal(agent_new(&b->config, &b->mem, &b->a), 0);
    does(b, (struct agent_event){.type = AGENT_GUARD, .guard_pid = 50});
    does(b, (struct agent_event){.type = AGENT_BEGIN});
}

struct bench *a_bench(void)
{
    struct bench *b = bench_new(1, 1);
    begin(b);
    return b;
}

void bench_free(struct bench *b)
{
    for (size_t i = 0; i < n_benches; i++) {
        if (benches[i] == b) {
            benches[i] = benches[--n_benches];
        }
    }
    agent_free(b->a);
    assert_int_equal(b->flaky.blocks, 0);
    free(b);
}

int benches_end(void **state)
{
    (void)state;
    while (n_benches > 0) {
        bench_free(benches[0]);
    }
    return 0;
}

struct bench *a_joined_bench(uint32_t nproc)
{
    struct bench *b = bench_new(nproc, 1);
    begin(b);
    connected(b);
    welcome(b);
    return b;
}

void run_epoch(struct bench *b, uint64_t epoch)
{
    prepare(b, epoch);
    ports_held(b, epoch);
    assert_saw(b, "READY");
    table(b, epoch);
    start(b, epoch);
    assert_saw(b, "SPAWN");
    for (uint32_t i = 0; i < b->config.spec.nproc; i++) {
        does(b, (struct agent_event){.type = AGENT_SPAWNED, .process = {i, 100 + i}});
    }
}

struct bench *a_running_bench(uint32_t nproc)
{
    struct bench *b = a_joined_bench(nproc);
    run_epoch(b, 1);
    return b;
}
