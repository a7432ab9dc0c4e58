/* tests/sim/node_agent.c: I/O layer of the agent's core in the simulator. */
#include "tests/sim/node_agent.h"

#include <stdio.h>
#include <string.h>

#include "tests/job_options.h"
#include "tests/sim/check.h"
#include "tests/sim/jobs.h"
#include "tests/sim/net.h"
#include "tests/sim/probing.h"
#include "tests/sim/script.h"

#define SPIN_MAX 10000
/* Memory that a core may use: for itself and the table. */
#define MEMORY_BASE (64u * 1024)
#define MEMORY_PER_ROW 512u
#define SIGTERM_NUMBER 15
#define SIGKILL_NUMBER 9

static const char own_tail[] = "ValueError: the script is broken";
static const char peer_tail[] =
    "Collective ops is aborted by: connection refused to a peer of this collective";

static void on_timer(struct world *w, const struct sim_event *event);

void node_agent_arm(struct world *w, struct node *n)
{
    timer_set(w, &n->timer, on_timer, n->index,
              n->agent ? clock_when(&n->clock, n->deadline) : SIM_NEVER);
}

static void on_timer(struct world *w, const struct sim_event *event)
{
    struct node *n = &w->nodes[event->who];
    if (!timer_is_due(w, &n->timer, event) || !node_can_run(w, event->who)) {
        return; /* the timer is set again when the machine goes on */
    }
    if (tfe_mono_before(node_clock(w, n->index), n->deadline)) {
        node_agent_arm(w, n);
        return;
    }
    n->spin = n->spin_at == w->now ? n->spin + 1 : 0;
    n->spin_at = w->now;
    if (n->spin > SPIN_MAX) {
        check_fail(w->check, CHECK_ENDLESS_LOOP, "an agent requests timers without end");
        return;
    }
    node_agent_event(w, n, &(struct agent_event){.type = AGENT_TICK});
}

/* Returns the agent process for which the event is meant, if it can handle it now; NULL if it has
 * ended or handles it later. */
static struct node *receiver(struct world *w, const struct sim_event *event)
{
    struct node *n = &w->nodes[event->who];
    if (event->tag != n->process || !n->agent) {
        return NULL;
    }
    if (!node_can_run(w, event->who)) {
        node_wait(n, event);
        return NULL;
    }
    return n;
}

/* --- delayed reports --- */

#define LATER_LOCAL_SHIFT 8
#define LATER_CODE_SHIFT 16
#define LATER_SIGNAL_SHIFT 24
#define LATER_OWN_SHIFT 31
#define LATER_EPOCH_SHIFT 32

static void on_later(struct world *w, const struct sim_event *event)
{
    struct node *n = receiver(w, event);
    if (!n) {
        return;
    }
    struct agent_event e = {.type = (enum agent_event_type)(event->arg & 0xff)};
    uint64_t epoch = event->arg >> LATER_EPOCH_SHIFT;
    uint32_t local = event->arg >> LATER_LOCAL_SHIFT & 0xff;
    bool is_own = event->arg >> LATER_OWN_SHIFT & 1;
    if (e.type == AGENT_TRAINER_EXITED) {
        e.end.local_rank = local;
        e.end.code = event->arg >> LATER_CODE_SHIFT & 0xff;
        e.end.signal = event->arg >> LATER_SIGNAL_SHIFT & 0x7f;
        if (e.end.signal != SIGKILL_NUMBER && e.end.code) {
            e.end.tail = is_own ? own_tail : jobs_get(w, n->job)->spec.mute ? "" : peer_tail;
        }
    } else if (e.type == AGENT_PROGRESS) {
        if (epoch != n->epoch || local >= n->cap_trainers) {
            return; /* of a process that no longer exists */
        }
        e.progress.local = local;
        e.progress.report = n->trainers[local].told;
        e.progress.report.epoch = epoch;
        e.progress.report.memory = n->told_memory = n->memory;
    } else if (e.type == AGENT_SPAWNED) {
        e.process.local = local;
        e.process.pid = 1000 * (n->index + 1) + local + 1;
    } else if (e.type == AGENT_IDLE) {
        if (n->epoch != epoch) {
            return;
        }
        bool is_idle = event->arg >> LATER_CODE_SHIFT & 0xff;
        e.idle_since = is_idle ? node_clock(w, n->index) : TFE_MONO_NEVER;
    } else if (e.type == AGENT_LISTENING) {
        if (local != (n->spawns & 0xff)) {
            return; /* trainers are to listen there now */
        }
        e.epoch = epoch;
    }
    node_agent_event(w, n, &e);
}

void node_agent_later(struct world *w, struct node *n, int64_t ms, struct node_report r)
{
    uint64_t arg = (uint64_t)r.type | (uint64_t)r.local << LATER_LOCAL_SHIFT |
                   (uint64_t)(r.code & 0xff) << LATER_CODE_SHIFT |
                   (uint64_t)(r.signal & 0x7f) << LATER_SIGNAL_SHIFT |
                   (uint64_t)r.is_own << LATER_OWN_SHIFT | r.epoch << LATER_EPOCH_SHIFT;
    world_at(w, w->now + ms, on_later, n->index, n->process, arg);
}

/* Queues a report that occurs in the middle of a step until its end. */
static void pend(struct node *n, const struct agent_event *event)
{
    if (n->n_pending < NODE_PENDING_MAX) {
        n->pending[n->n_pending++] = *event;
    }
}

/* --- actions --- */

static void hold_ports(struct world *w, struct node *n, uint64_t epoch, bool fresh)
{
    uint32_t nproc = jobs_get(w, n->job)->nproc;
    uint32_t k = n->fixed ? 0 : epoch & 1;
    uint16_t *ports = n->ports[k];
    fresh = fresh && !n->fixed;
    /* As in agent/os/ports.c: new ports come in pairs, whose other halves serve the other parity
     * when they are next reserved. */
    for (uint32_t i = 0; i < nproc; i++) {
        if (fresh || ports[i] == 0) {
            n->next_port = n->next_port >= 60000 || n->next_port < 10000
                               ? 10000
                               : (uint16_t)(n->next_port + 2);
            ports[i] = (uint16_t)(n->next_port + k);
            n->next_ports[k][i] = 0;
            n->next_ports[!k][i] = (uint16_t)(n->next_port + !k);
        } else if (n->next_ports[k][i] != 0) {
            ports[i] = n->next_ports[k][i];
            n->next_ports[k][i] = 0;
        }
    }
    pend(n, &(struct agent_event){.type = AGENT_PORTS_HELD, .ports = {epoch, ports, nproc}});
}

/* As take_ports_back in agent/trainer: a restarted trainer gets the ports that the epoch knows, or
 * does not start. */
static bool has_ports(const struct node *n, const struct agent_place *place, uint32_t local)
{
    const uint16_t *ports = n->ports[n->fixed ? 0 : place->epoch & 1];
    return !place->is_again || place->rank >= place->n_rows ||
           ports[local] == place->rows[place->rank + local].port;
}

static void spawn(struct world *w, struct node *n, const struct agent_place *place)
{
    if (place->is_again && place->own.role == TASK_WORKER && n->done_epoch == place->epoch &&
        n->done_process == n->process) {
        check_fail(w->check, CHECK_SUCCESS_FINAL,
                   "node %u starts again in epoch %llu, where its trainers ended with status 0",
                   n->index, (unsigned long long)place->epoch);
    }
    n->epoch = place->epoch;
    n->n_up = 0;
    n->n_placed = place->n;
    n->spawns++;
    if (n->n_alive > 0) {
        check_idle_report(w->check, n->index, "SPAWN", n->n_alive);
        return;
    }
    for (uint32_t local = 0; local < place->n; local++) {
        if (!n->guard || n->fence_passed || !has_ports(n, place, local)) {
            check_own_fault(w->check, net_agent_era(w, n->index), n->job, place->epoch);
            pend(n,
                 &(struct agent_event){
                     .type = AGENT_SPAWN_FAILED,
                     .end = {.local_rank = local, .code = 126, .tail = "the guard is not there"}});
        } else {
            check_leased(w->check, n->index, node_clock(w, n->index).ms);
            trainer_start(w, n, local, place);
            node_agent_later(w, n, 2, (struct node_report){.type = AGENT_SPAWNED, .local = local});
        }
    }
}

/* Checks what the message reports of the trainers against those that live; the reply's grants count
 * from now. */
static void judge_send(struct world *w, struct node *n, const struct tfe_msg *msg)
{
    int64_t clock = node_clock(w, n->index).ms;
    if (msg->type == MSG_RENEW) {
        n->renew_sent[msg->u.renew.number % NODE_RENEWALS] = clock;
    } else if (msg->type == MSG_JOIN) {
        n->join_sent = clock;
        if (msg->u.join.running_epoch == 0) {
            check_idle_report(w->check, n->index, "JOIN", n->n_alive);
        }
    } else if (msg->type == MSG_READY || msg->type == MSG_EXITED || msg->type == MSG_GOODBYE) {
        check_idle_report(w->check, n->index, msg_type_name(msg->type), n->n_alive);
        if (msg->type == MSG_READY && msg->u.ready.epoch > n->ready_for) {
            n->ready_for = msg->u.ready.epoch;
        }
    }
    if (msg->type == MSG_EXITED) {
        const struct msg_exited *e = &msg->u.exited;
        n->done_epoch = e->stopped || e->code || e->signal ? 0 : e->epoch;
        n->done_process = n->process;
    }
}

static void agent_exits(struct world *w, struct node *n, const struct agent_action *action)
{
    n->over = true;
    const char *sentence = action->exit.sentence;
    n->exit_code = action->exit.code;
    world_trace(w, n->name, "exit", "code=%d%s%s%s", n->exit_code, sentence ? " \"" : "",
                sentence ? sentence : "", sentence ? "\"" : "");
    net_agent_close(w, n->index);
}

static void say(struct world *w, struct node *n, const struct agent_trace *trace)
{
    char number[32] = "";
    uint64_t said = trace->kind == AGENT_TRACE_EPOCH ? trace->rank : trace->number;
    if (said) {
        snprintf(number, sizeof(number), " n=%llu", (unsigned long long)said);
    }
    world_trace(w, n->name, agent_trace_format(trace->kind)->name, "e%llu%s%s%s%s",
                (unsigned long long)trace->epoch, number, trace->text ? " \"" : "",
                trace->text ? trace->text : "", trace->text ? "\"" : "");
}

static void carry_out(struct world *w, struct node *n, const struct agent_action *action)
{
    switch (action->type) {
    case AGENT_CONNECT:
        net_connect(w, n->index);
        return;
    case AGENT_DISCONNECT:
        net_agent_close(w, n->index);
        pend(n, &(struct agent_event){.type = AGENT_DISCONNECTED,
                                      .lost = {AGENT_LINK_LOST, "closed"}});
        return;
    case AGENT_HANG_UP:
        net_agent_abort(w, n->index);
        pend(n, &(struct agent_event){.type = AGENT_DISCONNECTED,
                                      .lost = {AGENT_LINK_LOST, "no answer"}});
        return;
    case AGENT_SEND:
        judge_send(w, n, &action->msg);
        net_agent_send(w, n->index, &action->msg);
        return;
    case AGENT_HOLD_PORTS:
        hold_ports(w, n, action->hold.epoch, action->hold.fresh);
        return;
    case AGENT_RESPOND:
        n->n_answers = action->respond.on ? action->respond.n_ports : 0;
        memcpy(n->answers, action->respond.ports, n->n_answers * sizeof(*n->answers));
        return;
    case AGENT_PROBE:
        probing_try(w, n, action->probe);
        return;
    case AGENT_SPAWN:
        spawn(w, n, &action->spawn);
        return;
    case AGENT_SWEEP:
        node_sweep(w, n, action->sweep.planned ? action->sweep.grace_ms : 0,
                   action->sweep.in_memory);
        return;
    case AGENT_SAVE:
        script_ask(w, n, action);
        return;
    case AGENT_CHECK_OUT: /* no job of a simulation has a commit */
        return;
    case AGENT_FENCE:
        node_set_fence(w, n, action->fence);
        return;
    case AGENT_EXIT:
        agent_exits(w, n, action);
        return;
    case AGENT_TRACE:
        say(w, n, &action->trace);
        return;
    }
}

/* --- the core --- */

static void step(struct world *w, struct node *n, struct agent_event *event)
{
    struct agent_actions actions;
    event->now = node_clock(w, n->index);
    w->events++;
    int rc = agent_step(n->core, event, &actions);
    if (rc == 0) {
        n->deadline = actions.deadline;
        for (size_t i = 0; i < actions.n && !n->over; i++) {
            carry_out(w, n, &actions.v[i]);
        }
        return;
    }
    if (rc != TFE_ENOMEM) {
        check_honest(w->check, n->name, "an event", rc);
    }
    if (event->type == AGENT_MESSAGE) {
        net_agent_abort(w, n->index);
        pend(n, &(struct agent_event){.type = AGENT_DISCONNECTED,
                                      .lost = {AGENT_LINK_LOST, "out of memory"}});
    }
}

void node_agent_event(struct world *w, struct node *n, const struct agent_event *event)
{
    if (!n->agent || n->over) {
        return;
    }
    if (n->stepping) {
        pend(n, event);
        return;
    }
    n->stepping = true;
    struct agent_event now = *event;
    step(w, n, &now);
    for (size_t i = 0; i < n->n_pending && !n->over; i++) {
        struct agent_event next = n->pending[i];
        step(w, n, &next);
    }
    n->n_pending = 0;
    n->stepping = false;
    if (n->over) {
        node_agent_end(w, n);
        node_guard_orphaned(w, n);
        return;
    }
    node_agent_arm(w, n);
}

void node_agent_end(struct world *w, struct node *n)
{
    n->agent = false;
    n->frozen = false;
    n->n_answers = 0;
    agent_free(n->core);
    n->core = NULL;
    check_memory(w->check, "an agent that has ended", n->mem.bytes, 0);
    n->timer.due = SIM_NEVER;
}

/* As in agent/server_report.c: after each WELCOME, and when it changes. */
static void say_spot(struct world *w, const struct node *n)
{
    if (n->agent && n->is_welcome && n->knows_spot) {
        net_agent_send(w, n->index,
                       &(struct tfe_msg){.type = MSG_MACHINE_INFO,
                                         .u.machine_info = {.has_spot = true, .is_spot = true}});
    }
}

static void on_spot(struct world *w, const struct sim_event *event)
{
    struct node *n = receiver(w, event);
    if (!n) {
        return;
    }
    n->knows_spot = true;
    say_spot(w, n);
}

void node_told_spot(struct world *w, uint32_t node)
{
    struct node *n = &w->nodes[node];
    n->spot = true;
    world_at(w, w->now, on_spot, node, n->process, 0);
}

void node_agent_begin(struct world *w, struct node *n, uint32_t job)
{
    const struct job *j = jobs_get(w, job);
    snprintf(n->run_key, sizeof(n->run_key), "k%u", j->run_key);
    struct agent_config config = {
        .node_name = n->name,
        .spec = job_of_size(j->min - j->n_ps - j->chief, j->max - j->n_ps - j->chief, j->nproc),
        .durable = n->durable,
        .fixed_ports = n->fixed,
        .run_key = j->run_key ? n->run_key : NULL,
        .new_run = j->new_run && !n->plain,
        .pid = 1 + n->index,
        .join_timeout_ms = 600000,
        .exit_grace_ms = 60000,
        .preempt_grace_ms = j->preempt_grace_ms,
        .seed = world_draw(w, n->index, n->process, 5),
    };
    config.spec.max_restarts = j->max_restarts;
    config.spec.elastic_timeout_ms = j->elastic_ms;
    config.spec.chief_grace_ms = j->chief_grace_ms;
    config.spec.no_grow = j->no_grow;
    config.spec.n_ps = j->n_ps;
    config.spec.chief = j->chief != 0;
    config.spec.evaluator = j->evaluator;
    config.spec.grow_now = j->grow_now;
    config.spec.all_workers = j->all_workers;
    config.spec.min_running = j->min_running;
    config.spec.linger = j->linger;
    config.spec.script_digest = j->script;
    config.job = j->name;
    memset(config.node_secret, '0', MSG_NODE_SECRET_CHARS); /* generated by the I/O layer */
    if (id_set(&config.node, n->id)) {
        check_honest(w->check, "the simulator", "the id of a node", 0);
    }
    if (w->options.deaths) {
        snprintf(n->death, sizeof(n->death), "%032x%032x", n->index + 1, n->process);
        (void)id_set(&config.proof_hash, n->death); /* hashed by the I/O layer */
        config.guard_port = NODE_GUARD_PORT;
        if (n->left[0] && n->left_job == job) {
            config.proofs[0] = n->left;
        }
    }
    n->ready_for = n->job == job ? n->ready_for : 0;
    n->job = job;
    n->over = false;
    n->frozen = false;
    n->n_pending = 0;
    n->noticed = n->heeded = 0;
    n->was_noticed = false;
    n->joined_at = SIM_NEVER;
    n->is_welcome = n->knows_spot = false;
    n->spot_heard_at = SIM_NEVER;
    n->signalled = false;
    n->outsider = false;
    n->epoch = 0;
    n->stepping = false;
    n->deadline = TFE_MONO_NEVER;
    memset(n->ports, 0, sizeof(n->ports)); /* the kernel gives a new process other ports */
    memset(n->next_ports, 0, sizeof(n->next_ports));
    mem_init(&n->mem, w, n->name,
             MEMORY_BASE +
                 (size_t)MEMORY_PER_ROW * j->nproc * (j->max < w->n_nodes ? j->max : w->n_nodes));
    int rc = agent_new(&config, &n->mem.mem, &n->core);
    if (rc) {
        check_honest(w->check, n->name, "its settings", rc);
        return;
    }
    n->agent = true;
    n->memory = n->told_memory = (struct msg_memory){.bytes = 0};
    check_node_begins(w->check, n->index);
    node_agent_event(w, n, &(struct agent_event){.type = AGENT_GUARD, .guard_pid = n->guard_pid});
    node_agent_event(w, n, &(struct agent_event){.type = AGENT_BEGIN});
    if (n->spot) {
        world_at(w, w->now + n->spot_after, on_spot, n->index, n->process, 0);
    }
}

/* --- events from the net --- */

static void on_signal(struct world *w, const struct sim_event *event)
{
    struct node *n = receiver(w, event);
    if (!n) {
        return;
    }
    node_agent_event(w, n,
                     &(struct agent_event){.type = AGENT_SIGNAL, .signo = (uint32_t)event->arg});
}

/* Part of the grace that is reserved, as in agent/core/notices.c. */
#define OUT_MS 2000

void node_signal(struct world *w, uint32_t node, uint32_t signo)
{
    struct node *n = &w->nodes[node];
    int64_t grace_ms = n->job == NAMES_NONE ? 0 : jobs_get(w, n->job)->preempt_grace_ms;
    grace_ms = grace_ms > 2 * OUT_MS ? grace_ms - OUT_MS : grace_ms / 2;
    n->out_by = w->now + (n->signalled ? 0 : grace_ms * 95 / 100);
    n->signalled = true;
    n->warned_at = w->now;
    world_at(w, w->now, on_signal, node, w->nodes[node].process, signo ? signo : SIGTERM_NUMBER);
}

#define NOTICE_WITHDRAWN_SHIFT 8
/* design 4.9: a machine that is still there this long after its deadline stays. */
#define BACK_MS 120000
#define NOTICE_DEADLINE_SHIFT 32
/* Interval at which a source of notices is checked again. */
#define NOTICE_AGAIN_MS 1000

/* As in agent/core/notices.c. */
static void heed(struct world *w, struct node *n, enum tfe_notice kind, uint32_t ms, bool withdrawn)
{
    struct tfe_mono clock = node_clock(w, n->index);
    bool stands = n->heeded & 1u << kind && tfe_mono_before(clock, n->noticed_until[kind]);
    n->heeded = withdrawn ? n->heeded & ~(1u << kind) : n->heeded | 1u << kind;
    n->heeded_at = w->now;
    n->goes_by[kind] = ms == MSG_UNSET ? TFE_MONO_NEVER : tfe_mono_add(clock, ms);
    if (kind == NOTICE_REBALANCE) {
        n->noticed_until[kind] = TFE_MONO_NEVER;
    } else if (!withdrawn && (!stands || ms != MSG_UNSET)) {
        n->noticed_until[kind] = tfe_mono_add(clock, (ms == MSG_UNSET ? 0 : (int64_t)ms) + BACK_MS);
    }
}

static void on_notice(struct world *w, const struct sim_event *event)
{
    struct node *n = receiver(w, event);
    if (!n) {
        return;
    }
    uint32_t ms = (uint32_t)(event->arg >> NOTICE_DEADLINE_SHIFT);
    bool may_fail = n->mem.fail_in != 0;
    heed(w, n, (enum tfe_notice)(event->arg & 0xff), ms, event->arg >> NOTICE_WITHDRAWN_SHIFT & 1);
    node_agent_event(
        w, n,
        &(struct agent_event){
            .type = AGENT_NOTICE,
            .notice = {.kind = (enum tfe_notice)(event->arg & 0xff),
                       .deadline = ms == MSG_UNSET ? TFE_MONO_NEVER
                                                   : tfe_mono_add(node_clock(w, event->who), ms),
                       .withdrawn = event->arg >> NOTICE_WITHDRAWN_SHIFT & 1}});
    if (may_fail && n->mem.fail_in == 0) {
        world_again(w, event, w->now + NOTICE_AGAIN_MS); /* it had no memory to handle the notice */
    }
}

bool node_may_go(const struct world *w, const struct node *n)
{
    bool may_go = n->signalled;
    for (int kind = NOTICE_REBALANCE; kind <= NOTICE_OPERATOR; kind++) {
        may_go = may_go || (n->noticed & 1u << kind &&
                            tfe_mono_before(node_clock(w, n->index), n->noticed_until[kind]));
    }
    return may_go;
}

static bool heeds(const struct world *w, const struct node *n, int kind)
{
    return n->agent && n->heeded & 1u << kind &&
           tfe_mono_before(node_clock(w, n->index), n->noticed_until[kind]);
}

bool node_leaves(const struct world *w, uint32_t node)
{
    bool leaves = false;
    for (int kind = NOTICE_REBALANCE + 1; kind <= NOTICE_OPERATOR; kind++) {
        leaves = leaves || heeds(w, &w->nodes[node], kind);
    }
    return leaves;
}

struct tfe_mono node_goes_by(const struct world *w, uint32_t node)
{
    struct tfe_mono first = TFE_MONO_NEVER;
    for (int kind = NOTICE_REBALANCE + 1; kind <= NOTICE_OPERATOR; kind++) {
        if (heeds(w, &w->nodes[node], kind)) {
            first = tfe_mono_min(first, w->nodes[node].goes_by[kind]);
        }
    }
    return first;
}

void node_notice(struct world *w, uint32_t node, enum tfe_notice kind, uint32_t deadline_ms,
                 bool withdrawn)
{
    uint32_t bit = 1u << kind;
    struct tfe_mono *until = &w->nodes[node].noticed_until[kind];
    bool stands = w->nodes[node].noticed & bit;
    w->nodes[node].was_noticed = true;
    w->nodes[node].warned_at = w->now;
    w->nodes[node].noticed =
        withdrawn ? w->nodes[node].noticed & ~bit : w->nodes[node].noticed | bit;
    if (kind == NOTICE_REBALANCE) {
        *until = TFE_MONO_NEVER;
    } else if (!stands || deadline_ms != MSG_UNSET) {
        *until = tfe_mono_add(node_clock(w, node),
                              (deadline_ms == MSG_UNSET ? 0 : (int64_t)deadline_ms) + BACK_MS);
    }
    if (!w->nodes[node].agent) {
        return; /* a process that starts at this moment was not told */
    }
    world_at(w, w->now, on_notice, node, w->nodes[node].process,
             (uint64_t)kind | (uint64_t)withdrawn << NOTICE_WITHDRAWN_SHIFT |
                 (uint64_t)deadline_ms << NOTICE_DEADLINE_SHIFT);
}

void node_connected(struct world *w, uint32_t node)
{
    struct node *n = &w->nodes[node];
    char host[PROBING_HOST_MAX];
    n->is_welcome = false;
    probing_host(node, host);
    node_agent_event(w, n, &(struct agent_event){.type = AGENT_CONNECTED, .host = host});
}

void node_disconnected(struct world *w, uint32_t node, enum agent_link link, const char *text)
{
    node_agent_event(w, &w->nodes[node],
                     &(struct agent_event){.type = AGENT_DISCONNECTED, .lost = {link, text}});
}

static void judge_receive(struct world *w, struct node *n, const struct tfe_msg *msg)
{
    int64_t sent;
    if (msg->type == MSG_WELCOME) {
        sent = n->join_sent;
        check_granted(w->check, n->index, sent, msg->u.welcome.ttl_ms, msg->u.welcome.fence_ms);
    } else if (msg->type == MSG_RENEWED) {
        sent = n->renew_sent[msg->u.renewed.number % NODE_RENEWALS];
        check_granted(w->check, n->index, sent, msg->u.renewed.ttl_ms, msg->u.renewed.fence_ms);
    } else if (msg->type == MSG_START) {
        check_fence_granted(w->check, n->index, n->granted_from + msg->u.start.fence_ms);
        node_check_fence(w, n);
        return;
    } else {
        return;
    }
    n->granted_from = sent;
    if (net_agent_era(w, n->index) != check_era(w->check, n->job)) {
        /* sent before the database was lost, received after */
        check_lease_forgotten(w->check, n->index);
    }
    node_check_fence(w, n);
}

void node_receive(struct world *w, uint32_t node, const struct tfe_msg *msg)
{
    struct node *n = &w->nodes[node];
    if (msg->type == MSG_WELCOME) {
        n->outsider = false;
    } else if (msg->type == MSG_REFUSED && msg->u.refused.code == REFUSAL_LIMIT_REACHED) {
        n->outsider = jobs_get(w, n->job)->run_key != 0;
    }
    judge_receive(w, n, msg);
    node_agent_event(w, n, &(struct agent_event){.type = AGENT_MESSAGE, .msg = msg});
    if (msg->type == MSG_WELCOME) {
        n->is_welcome = true;
        say_spot(w, n);
    }
}
