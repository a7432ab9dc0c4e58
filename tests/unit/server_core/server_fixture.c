/* tests/unit/server_core/server_fixture.c: a rendezvous core with simulated agents. */
#include "tests/unit/server_core/server_fixture.h"

static void disk_keep(struct disk *d, const struct rdzv_record *record)
{
    d->record = *record;
    d->record.job = "j";
    snprintf(d->sentence, sizeof(d->sentence), "%s", record->sentence);
    d->record.sentence = d->sentence;
    snprintf(d->run_key, sizeof(d->run_key), "%s", record->run_key);
    d->record.run_key = d->run_key;
    d->record.members = d->members;
    for (uint32_t i = 0; i < record->n_members; i++) {
        const struct rdzv_member *m = &record->members[i];
        snprintf(d->text[i][0], sizeof(d->text[i][0]), "%s", m->node);
        snprintf(d->text[i][1], sizeof(d->text[i][1]), "%s", m->name);
        snprintf(d->text[i][2], sizeof(d->text[i][2]), "%s", m->host);
        memcpy(d->ports[i], m->ports, record->spec.nproc * sizeof(m->ports[0]));
        d->members[i] = (struct rdzv_member){.node = d->text[i][0],
                                             .name = d->text[i][1],
                                             .host = d->text[i][2],
                                             .ports = d->ports[i],
                                             .join_order = m->join_order,
                                             .durable = m->durable,
                                             .fixed_ports = m->fixed_ports,
                                             .drained = m->drained,
                                             .known_to = d->known_to[i],
                                             .n_known_to = m->n_known_to,
                                             .taken_over = m->taken_over};
        for (uint32_t k = 0; k < m->n_known_to; k++) {
            d->known_to[i][k] = m->known_to[k];
        }
    }
}

static void put(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct world *w, const char *format, ...)
{
    char line[8192];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    assert_true(n >= 0 && (size_t)n < sizeof(line));
    if (w->n_log + (size_t)n + 1 > w->cap_log) {
        w->cap_log = 2 * w->cap_log + (size_t)n + 4096;
        w->log = realloc(w->log, w->cap_log);
        assert_non_null(w->log);
    }
    memcpy(w->log + w->n_log, line, (size_t)n + 1);
    w->n_log += (size_t)n;
    for (int i = 0; i < n; i++) {
        w->history = (w->history ^ (unsigned char)line[i]) * UINT64_C(0x100000001b3);
    }
}

static void put_msg(struct world *w, const struct tfe_msg *msg)
{
    put(w, "%s", msg_type_name(msg->type));
    switch ((int)msg->type) {
    case MSG_WELCOME:
        put(w, " %s run=%u ttl=%u fence=%u renew=%u spread=%u grace=%u%s%s", msg->u.welcome.node,
            msg->u.welcome.run, msg->u.welcome.ttl_ms, msg->u.welcome.fence_ms,
            msg->u.welcome.renew_ms, msg->u.welcome.spread_ms, msg->u.welcome.stop_grace_ms,
            msg->u.welcome.message ? " " : "",
            msg->u.welcome.message ? msg->u.welcome.message : "");
        break;
    case MSG_RENEWED:
        put(w, " %llu ttl=%u fence=%u", (unsigned long long)msg->u.renewed.number,
            msg->u.renewed.ttl_ms, msg->u.renewed.fence_ms);
        if (msg->u.renewed.spread_ms != 0) {
            put(w, " spread=%u", msg->u.renewed.spread_ms);
        }
        break;
    case MSG_PREPARE:
        put(w, " epoch=%llu%s", (unsigned long long)msg->u.prepare.epoch,
            msg->u.prepare.fresh_ports ? " fresh" : "");
        if (w->answers) {
            put(w, "%s", msg->u.prepare.answer ? " answer" : "");
        }
        break;
    case MSG_PROBE:
        put(w, " %s %s %s", msg_probe_kind_name(msg->u.probe.kind), msg->u.probe.node,
            msg->u.probe.host);
        for (size_t i = 0; i < msg->u.probe.n_ports; i++) {
            put(w, ":%u", msg->u.probe.ports[i]);
        }
        if (msg->u.probe.guard_port) {
            put(w, " guard:%u", msg->u.probe.guard_port);
        }
        break;
    case MSG_STOP:
        put(w, " epoch=%llu%s", (unsigned long long)msg->u.stop.epoch,
            msg->u.stop.planned ? " planned" : "");
        put(w, "%s", msg->u.stop.in_memory ? " in_memory" : "");
        break;
    case MSG_SAVE:
        put(w, " epoch=%llu number=%llu", (unsigned long long)msg->u.save.epoch,
            (unsigned long long)msg->u.save.number);
        if (msg->u.save.within_ms != MSG_UNSET) {
            put(w, " within=%u", msg->u.save.within_ms);
        }
        put(w, "%s", msg->u.save.in_memory ? " in_memory" : "");
        break;
    case MSG_TABLE:
        put(w, " epoch=%llu", (unsigned long long)msg->u.table.epoch);
        if (msg->u.table.base_digest != 0) {
            put(w, " changes");
            for (size_t i = 0; i < msg->u.table.n_rows; i++) {
                const struct msg_row *row = &msg->u.table.rows[i];
                put(w, " %u=%s:%u", row->rank, row->host, row->port);
            }
            put(w, "%s base=%llx", msg->u.table.turned ? " turned" : "",
                (unsigned long long)msg->u.table.base_digest);
            break;
        }
        assert_int_equal(msg->u.table.world, msg->u.table.n_rows);
        for (size_t i = 0; i < msg->u.table.n_rows; i++) {
            assert_int_equal(msg->u.table.rows[i].rank, i);
            put(w, " %s:%u", msg->u.table.rows[i].host, msg->u.table.rows[i].port);
        }
        put(w, " digest=%llx",
            (unsigned long long)table_digest(msg->u.table.rows, msg->u.table.n_rows));
        break;
    case MSG_START:
        put(w, " epoch=%llu rank=%u world=%u nodes=%u cause=%s run=%u fence=%u digest=%llx",
            (unsigned long long)msg->u.start.epoch, msg->u.start.rank, msg->u.start.world,
            msg->u.start.nodes, msg_cause_name(msg->u.start.cause), msg->u.start.run,
            msg->u.start.fence_ms, (unsigned long long)msg->u.start.table_digest);
        put(w, "%s", msg->u.start.evaluates ? " evaluates" : "");
        break;
    case MSG_RESTART:
        put(w, " epoch=%llu number=%llu", (unsigned long long)msg->u.restart.epoch,
            (unsigned long long)msg->u.restart.number);
        break;
    case MSG_NOTED:
        put(w, " epoch=%llu", (unsigned long long)msg->u.noted.epoch);
        break;
    case MSG_LEASE_ENDED:
        put(w, " epoch=%llu", (unsigned long long)msg->u.lease_ended.epoch);
        break;
    case MSG_FINISH:
        put(w, " %s: %s", msg_result_name(msg->u.finish.result), msg->u.finish.sentence);
        break;
    case MSG_REFUSED:
        put(w, " %s: %s", msg_refusal_name(msg->u.refused.code), msg->u.refused.sentence);
        if (msg->u.refused.commit) {
            put(w, " commit=%016llx", (unsigned long long)msg->u.refused.commit);
        }
        break;
    }
    put(w, "\n");
}

static void put_time(struct world *w, const char *name, struct tfe_mono when)
{
    if (!tfe_mono_is_never(when)) {
        put(w, " %s=%lld", name, (long long)when.ms - WORLD_BEGINS);
    }
}

static void put_ledger(struct world *w, const struct rdzv_ledger *ledger,
                       enum rdzv_ledger_change change)
{
    static const char *const changes[] = {[LEDGER_OTHER] = "",
                                          [LEDGER_STARTED] = "ROW started\n",
                                          [LEDGER_PROGRESSED] = "ROW progressed\n",
                                          [LEDGER_CLOSED] = "ROW closed\n"};
    const struct msg_epoch_row *row = &ledger->row;
    put(w, "%s", changes[change]);
    put(w, "LEDGER %s/%u epoch=%llu %s%s blamed=%s members=%u", ledger->job, row->run,
        (unsigned long long)row->epoch, msg_cause_name(row->cause), row->planned ? " planned" : "",
        row->blamed, row->members);
#define PUT_TIME(NAME, name) put_time(w, #name, ledger->at[EPOCH_##NAME]);
    TFE_EPOCH_TIMES(PUT_TIME)
#undef PUT_TIME
    if (row->has_saved) {
        put(w, " saved=%llu", (unsigned long long)row->saved_step);
    }
    if (row->has_lost) {
        put(w, " lost=%llu", (unsigned long long)row->lost_steps);
    }
    put(w, "%s\n", row->over ? " over" : "");
}

int write_ends(struct world *w, enum rdzv_event_type how)
{
    char job[TFE_ID_MAX + 1];
    snprintf(job, sizeof(job), "%s", w->write_job);
    return step(
        w, &(struct rdzv_event){.type = how, .now = {w->now}, .job = job, .sequence = w->write});
}

int follow(struct world *w, bool wrote, uint32_t leader, uint64_t epoch)
{
    int rc = 0;
    if (wrote && !w->holds_writes) {
        rc = write_ends(w, RDZV_PERSISTED);
    }
    if (rc == 0 && leader != UINT32_MAX && !w->holds_leader) {
        struct tfe_msg msg = {.type = MSG_LISTENING, .u.listening.epoch = epoch};
        rc = step(w, &(struct rdzv_event){
                         .type = RDZV_MESSAGE, .now = {w->now}, .session = leader, .msg = &msg});
    }
    return rc;
}

int step(struct world *w, const struct rdzv_event *event)
{
    bool wrote = false;
    uint32_t leader = UINT32_MAX;
    uint64_t leads = 0;
    struct rdzv_actions actions;
    struct rdzv_event dated = *event;
    dated.wall.ms = w->wall;
    event = &dated;
    int rc = rdzv_step(w->r, event, &actions);
    if (rc == TFE_ENOMEM && w->retries) {
        assert_int_equal(actions.n, 0);
        assert_int_equal(actions.deadline.ms, w->deadline);
        w->failed++;
        rc = rdzv_step(w->r, event, &actions);
    }
    w->deadline = actions.deadline.ms;
    if (rc) {
        assert_int_equal(actions.n, 0);
        return rc;
    }
    for (size_t i = 0; i < actions.n; i++) {
        const struct rdzv_action *action = &actions.v[i];
        switch (action->type) {
        case RDZV_SEND:
            if (w->quiet && action->msg.type == MSG_RENEWED) {
                break;
            }
            put(w, "%u:", action->session);
            put_msg(w, &action->msg);
            if (action->msg.type == MSG_PREPARE && action->session < SESSIONS) {
                w->asked[action->session] = action->msg.u.prepare.answer;
            }
            if (action->msg.type == MSG_PROBE) {
                w->probe[action->session] = action->msg.u.probe.probe;
            }
            if (action->msg.type == MSG_START && action->msg.u.start.rank == 0 &&
                action->msg.u.start.nodes > 1) {
                leader = action->session;
                leads = action->msg.u.start.epoch;
            }
            break;
        case RDZV_PERSIST:
            wrote = true;
            w->write = action->record->sequence;
            if (w->disk) {
                disk_keep(w->disk, action->record);
            }
            snprintf(w->write_job, sizeof(w->write_job), "%s", action->record->job);
            put(w, "PERSIST job=%s epoch=%llu after=%llu members=%u%s\n", action->record->job,
                (unsigned long long)action->record->epoch,
                (unsigned long long)action->record->predecessor, action->record->n_members,
                action->record->over ? " over" : "");
            break;
        case RDZV_CLOSE:
            put(w, "%u:CLOSE\n", action->session);
            if (action->session < SESSIONS) {
                w->renews[action->session] = false;
            }
            break;
        case RDZV_EXIT:
            put(w, "EXIT %s\n", action->sentence);
            break;
        case RDZV_LEDGER:
            if (w->shows_ledger) {
                put_ledger(w, action->ledger, action->change);
            }
            break;
        case RDZV_TRACE:
            put(w, "~%s job=%s node=%s epoch=%llu number=%llu %s%s\n",
                rdzv_trace_name(action->trace.kind), action->trace.job ? action->trace.job : "-",
                action->trace.node ? action->trace.node : "-",
                (unsigned long long)action->trace.epoch, (unsigned long long)action->trace.number,
                action->trace.text ? action->trace.text : "-",
                action->trace.uncertain ? " uncertain" : "");
            break;
        }
    }
    return follow(w, wrote, leader, leads);
}

void forget(struct world *w)
{
    w->n_log = 0;
    put(w, "%s", "");
}

/* --- acts: each clears the log of the previous one -------------------------------------------- */

int say(struct world *w, uint32_t session, const struct tfe_msg *msg)
{
    forget(w);
    return step(w, &(struct rdzv_event){
                       .type = RDZV_MESSAGE, .now = {w->now}, .session = session, .msg = msg});
}

int try_join(struct world *w, uint32_t session, const char *node)
{
    struct tfe_msg msg = {.type = MSG_JOIN, .u.join = w->join};
    msg.u.join.node = node;
    msg.u.join.node_name = w->join.node_name ? w->join.node_name : node;
    int rc = say(w, session, &msg);
    if (rc == 0) {
        snprintf(w->node[session], sizeof(w->node[session]), "%s", node);
        char closed[32];
        snprintf(closed, sizeof(closed), "\n%u:CLOSE\n", session);
        w->renews[session] = strstr(w->log, ":WELCOME") && !strstr(w->log, closed);
        w->renew_at[session] = w->now + TTL_MS / 3;
    }
    return rc;
}

void join(struct world *w, uint32_t session, const char *node)
{
    assert_int_equal(try_join(w, session, node), 0);
}

int try_ready(struct world *w, uint32_t session, uint64_t epoch)
{
    char host[TFE_ID_MAX + 32];
    w->answering[session] = w->answers && w->asked[session];
    snprintf(host, sizeof(host), w->answers ? "%s" : "%s%u", w->node[session],
             (unsigned)(epoch & 1));
    uint16_t ports[MSG_NPROC_MAX];
    for (uint32_t i = 0; i < MSG_NPROC_MAX; i++) {
        ports[i] = (uint16_t)(1000 + 100 * session + i);
    }
    return say(w, session,
               &(struct tfe_msg){.type = MSG_READY,
                                 .u.ready = {.epoch = epoch,
                                             .host = host,
                                             .ports = ports,
                                             .n_ports = w->join.spec.nproc,
                                             .answering = w->answering[session],
                                             .memory = w->memory[session]}});
}

void ready(struct world *w, uint32_t session, uint64_t epoch)
{
    assert_int_equal(try_ready(w, session, epoch), 0);
}

void probed(struct world *w, uint32_t session, enum tfe_probe_result result)
{
    uint64_t probe = w->probe[session];
    assert_true(probe != 0);
    w->probe[session] = 0;
    assert_int_equal(
        say(w, session,
            &(struct tfe_msg){.type = MSG_PROBED, .u.probed = {.probe = probe, .result = result}}),
        0);
}

void exited_as(struct world *w, uint32_t session, struct msg_exited exited)
{
    if (!exited.tail) {
        exited.tail = "";
    }
    assert_int_equal(say(w, session, &(struct tfe_msg){.type = MSG_EXITED, .u.exited = exited}), 0);
}

void exited(struct world *w, uint32_t session, uint64_t epoch, uint32_t code)
{
    exited_as(w, session, (struct msg_exited){.epoch = epoch, .code = code});
}

void trainer_listens(struct world *w, uint32_t session, uint64_t epoch)
{
    assert_int_equal(
        say(w, session, &(struct tfe_msg){.type = MSG_LISTENING, .u.listening.epoch = epoch}), 0);
}

void stopped_and_ready(struct world *w, uint32_t session, uint64_t epoch)
{
    exited_as(w, session, (struct msg_exited){.epoch = epoch, .stopped = true});
    ready(w, session, epoch + 1);
}

void goodbye(struct world *w, uint32_t session)
{
    assert_int_equal(say(w, session, &(struct tfe_msg){.type = MSG_GOODBYE}), 0);
}

void cut(struct world *w, uint32_t session)
{
    forget(w);
    w->renews[session] = false;
    assert_int_equal(
        step(w, &(struct rdzv_event){.type = RDZV_CLOSED, .now = {w->now}, .session = session}), 0);
}

void pass_until(struct world *w, int64_t until)
{
    forget(w);
    for (;;) {
        int64_t next = w->deadline < w->now ? w->now : w->deadline;
        uint32_t who = SESSIONS;
        for (uint32_t s = 0; s < SESSIONS; s++) {
            if (w->renews[s] && w->renew_at[s] <= next) {
                next = w->renew_at[s];
                who = s;
            }
        }
        if (next > until) {
            w->now = until;
            return;
        }
        w->now = next;
        if (who == SESSIONS) {
            assert_int_equal(step(w, &(struct rdzv_event){.type = RDZV_TICK, .now = {w->now}}), 0);
            continue;
        }
        w->renew_at[who] = w->now + TTL_MS / 3;
        struct tfe_msg msg = {.type = MSG_RENEW, .u.renew.number = ++w->renewals};
        assert_int_equal(step(w, &(struct rdzv_event){.type = RDZV_MESSAGE,
                                                      .now = {w->now},
                                                      .session = who,
                                                      .msg = &msg}),
                         0);
    }
}

void pass(struct world *w, int64_t ms)
{
    pass_until(w, w->now + ms);
}

/* --- observations ----------------------------------------------------------------------------- */

int times_seen(const struct world *w, const char *part)
{
    int n = 0;
    for (const char *p = strstr(w->log, part); p; p = strstr(p + 1, part)) {
        n++;
    }
    return n;
}

const char *job_state(const struct world *w)
{
    struct msg_status_job job;
    return rdzv_view_job(w->r, NULL, &job) ? "none" : job.phase;
}

/* --- set-up and tear-down --------------------------------------------------------------------- */

struct rdzv_config usual_config(void)
{
    return (struct rdzv_config){.incarnation = 7,
                                .ttl_ms = TTL_MS,
                                .defaults = default_options(),
                                .gather_max_ms = 30000,
                                .exit_grace_ms = 60000,
                                .max_sessions = SESSIONS};
}

struct msg_join usual_join(uint32_t min, uint32_t max)
{
    struct msg_join join = {.job = "j", .spec = job_of_size(min, max, 1), .pid = 4711};
    join.spec.script_digest = 99;
    join.spec.retry_start = true; /* in most tests a trainer that ends at once is to be restarted */
    return join;
}

struct world *world_new(const struct rdzv_config *config, uint32_t min, uint32_t max)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->mem = flaky_mem(&w->flaky);
    w->now = WORLD_BEGINS;
    w->deadline = INT64_MAX;
    w->join = usual_join(min, max);
    w->quiet = true;
    w->history = UINT64_C(0xcbf29ce484222325);
    forget(w);
    assert_int_equal(rdzv_new(config, &w->mem, &w->r), 0);
    return w;
}

struct world *a_world(uint32_t min, uint32_t max)
{
    struct rdzv_config config = usual_config();
    return world_new(&config, min, max);
}

void world_free(struct world *w)
{
    rdzv_free(w->r);
    assert_int_equal(w->flaky.blocks, 0);
    free(w->log);
    free(w);
}

const char *name_of(uint32_t i)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    return names[i];
}

void come(struct world *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
}

struct world *a_running_world(uint32_t min, uint32_t max, uint32_t n)
{
    struct world *w = a_world(min, max);
    come(w, n);
    if (n < max) {
        pass(w, 3000);
    }
    assert_string_equal(job_state(w), "running");
    return w;
}

struct world *an_adopted_world(uint32_t max)
{
    struct world *w = a_world(1, max);
    struct rdzv_member member = {.node = "a", .name = "a", .host = "h", .ports = (uint16_t[]){1}};
    struct rdzv_record record = {.sequence = 1,
                                 .job = "j",
                                 .spec.min_nodes = 1,
                                 .spec.max_nodes = max,
                                 .spec.nproc = 1,
                                 .spec.gather_ms = 3000,
                                 .spec.grow_wait_ms = 60000,
                                 .spec.stop_grace_ms = 5000,
                                 .spec.script_digest = 99,
                                 .run = 1,
                                 .epoch = 4,
                                 .cause = CAUSE_JOINED,
                                 .ttl_ms = TTL_MS,
                                 .fence_ms = 300000,
                                 .members = &member,
                                 .n_members = 1};
    assert_int_equal(rdzv_restore(w->r, (struct tfe_mono){w->now}, &record), 0);
    w->join.running_epoch = w->join.highest_epoch = 4;
    join(w, 0, "a");
    w->join.running_epoch = w->join.highest_epoch = 0;
    return w;
}
