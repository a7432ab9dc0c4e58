/* server/core/on_join.c: JOIN: a new node, or a known node on a new connection. */
#include <string.h>

#include "common/text/git_url.h"
#include "common/text/text.h"
#include "server/core/epoch.h"
#include "server/core/evaluator.h"
#include "server/core/handlers.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/join_limits.h"
#include "server/core/layout.h"
#include "server/core/lease.h"
#include "server/core/node.h"
#include "server/core/notice.h"
#include "server/core/probe.h"
#include "server/core/rebuild.h"
#include "server/core/states.h"
#include "server/core/verdict.h"
#include "server/core/worker_restart.h"

static bool running_is_valid(const struct msg_join *join)
{
    const struct msg_running *running = join->running;
    /* rank and world are checked later (rebuild.c), because the epoch may have another number of
     * ps */
    return (join->running_epoch > 0 || (join->exited && join->exited->epoch > 0 &&
                                        join->exited->epoch <= join->highest_epoch)) &&
           running->run >= 1 && running->nodes > 0 && running->nodes <= MSG_NODES_MAX &&
           running->nodes <= join->spec.max_nodes + layout_extra(&join->spec) &&
           running->n_ports == join->spec.nproc && running->host && running->host[0] != '\0' &&
           strnlen(running->host, TFE_HOST_MAX + 1) <= TFE_HOST_MAX;
}

/* Returns true if the job that the JOIN asks for has the role to which the node is pinned. */
static bool role_is_valid(const struct msg_join *join)
{
    const struct job_spec *spec = &join->spec;
    switch (join->has_role ? join->role : TASK_WORKER) {
    case TASK_WORKER:
        return true;
    case TASK_CHIEF:
        return spec->chief;
    case TASK_PS:
        return spec->n_ps > 0;
    case TASK_EVALUATOR:
        return spec->evaluator;
    }
    return false;
}

static bool is_valid(const struct msg_join *join)
{
    return id_is_valid(join->job) && id_is_valid(join->node) && join->node_name &&
           (join->node_name[0] == '\0' || id_is_valid(join->node_name)) &&
           job_spec_is_valid(&join->spec) && role_is_valid(join) &&
           join->running_epoch <= join->highest_epoch &&
           (!join->run_key || id_is_valid(join->run_key)) &&
           (!join->tensorflow || id_is_valid(join->tensorflow)) &&
           (!join->proof_hash || id_is_valid(join->proof_hash)) &&
           (!join->running || running_is_valid(join)) &&
           (!join->exited || exited_is_valid(join->exited, join->spec.nproc));
}

/* --- refusals --------------------------------------------------------------------------------- */

static void refuse(struct rdzv *r, uint32_t session, enum tfe_refusal code, const char *sentence)
{
    send_refused(r, session, code, sentence);
    send_trace(r, TRACE_NODE_REFUSED, NULL, NULL, (uint64_t)code, sentence);
}

/* Refuses a node that an operator has evicted. Returns true if it was refused. node: the known node
 * of this id, or NULL. */
static bool refused_as_evicted(struct rdzv *r, uint32_t session, struct node *node,
                               const struct msg_join *join)
{
    if (!evicted_has(r, join->job, join->node)) {
        return false;
    }
    refuse(r, session, REFUSAL_EVICTED, evicted_sentence);
    if (node && join->exited && join->exited->epoch == node->job->epoch.number) {
        slot_account(node); /* the ending that it reports still counts */
        job_touch(node->job);
    }
    return true;
}

/* Refuses a node whose run (--run-key) is neither the present nor the next one. Returns true if it
 * was refused. */
static bool refused_key(struct rdzv *r, uint32_t session, struct job *job,
                        const struct msg_join *join)
{
    const struct rdzv_run_end *past = run_find(job, join->run_key);
    bool is_last = strcmp(join->run_key, job->run.key.text) == 0;
    struct rdzv_run_end last = run_last(job);
    if (job_is_over(job) && is_last) {
        past = &last;
    }
    if (past) {
        run_send_end(r, job, past, session);
        return true;
    }
    if (job_is_over(job) || is_last) {
        return false;
    }
    text_setf(r->sentence, sizeof(r->sentence),
              "job %s is in run %u%s%s: run %s can begin after that run has ended", job->name.text,
              job->run.number, job->run.key.text[0] ? ", " : "", job->run.key.text, join->run_key);
    refuse(r, session, REFUSAL_LIMIT_REACHED, r->sentence);
    return true;
}

/* Returns true if the node has been in a later run than the job's last recorded one, which is over:
 * an older copy of the database was restored. The later run continues. */
static bool is_of_later_run(const struct job *job, const struct msg_join *join)
{
    return job_is_over(job) && join->running && rebuild_believes(join) &&
           join->running->run > job->run.number;
}

/* Refuses a node that joins a job that is over. Returns true if it was refused. */
static bool refused_late(struct rdzv *r, uint32_t session, struct job *job,
                         const struct msg_join *join)
{
    struct rdzv_run_end last = run_last(job);
    if (join->run_key || join->new_run || is_of_later_run(job, join)) {
        return false;
    }
    const bool has_commit = join->spec.commit == job->spec.commit;
    if (has_commit && join->spec.script_digest == job->spec.script_digest) {
        run_send_end(r, job, &last, session);
        return true;
    }
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    run_describe(&text, job, &last);
    text_addf(&text, "; this node has a different %s (use --new-run or another --job name)",
              has_commit ? "script" : "git commit");
    refuse(r, session, REFUSAL_JOB_FINISHED, r->sentence);
    return true;
}

/* Refuses a node while the job is being forgotten: it can start anew a moment later. Returns true
 * if it was refused. */
static bool refused_gone(struct rdzv *r, uint32_t session, const struct job *job)
{
    if (!job->persist.is_gone) {
        return false;
    }
    text_setf(r->sentence, sizeof(r->sentence), "job %s is being forgotten: try again",
              job->name.text);
    refuse(r, session, REFUSAL_LIMIT_REACHED, r->sentence);
    return true;
}

static bool agrees(const struct job *job, const struct job_spec *spec)
{
    struct job_spec requested = *spec;
    if (job->is_resized) { /* sizes set by an operator override those of the agents */
        requested.min_nodes = job->spec.min_nodes;
        requested.max_nodes = job->spec.max_nodes;
    }
    if (job->is_ps_resized) {
        requested.n_ps = job->spec.n_ps;
    }
    return job_spec_agrees(&requested, &job->spec);
}

/* Appends the options that must be equal on all nodes of a job. */
static void add_sizes(struct text *text, const struct job_spec *spec, bool has_roles)
{
    text_addf(text, " --nnodes=%u:%u --nproc-per-node=%u", spec->min_nodes, spec->max_nodes,
              spec->nproc);
    if (has_roles) {
        text_addf(text, " --ps=%u%s%s", spec->n_ps, spec->chief ? " --chief" : "",
                  spec->evaluator ? " --evaluator" : "");
    }
}

static void add_commit(struct text *text, uint64_t commit)
{
    if (commit != 0) {
        text_addf(text, "git commit %0*llx", GIT_COMMIT_SHORT, (unsigned long long)commit);
    } else {
        text_add(text, "no git commit");
    }
}

/* Refuses a node whose files are at another commit than those of the job's other nodes. */
static void refuse_commit(struct rdzv *r, uint32_t session, const struct job *job,
                          const struct msg_join *join)
{
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    text_addf(&text, "job %s runs ", job->name.text);
    add_commit(&text, job->spec.commit);
    text_add(&text, ", this node has ");
    add_commit(&text, join->spec.commit);
    text_add(&text,
             job->spec.commit != 0
                 ? " (start its agent with --git and that commit as REF, or use another --job "
                   "name)"
                 : " (start its agent without --git, or use another --job name)");
    send_refused_commit(r, session, job->spec.commit, r->sentence);
    send_trace(r, TRACE_NODE_REFUSED, NULL, NULL, REFUSAL_COMMIT_MISMATCH, r->sentence);
}

/* Refuses a JOIN that does not fit the job. Returns true if it was refused. */
static bool refused(struct rdzv *r, uint32_t session, struct job *job, const struct msg_join *join)
{
    if (refused_gone(r, session, job)) {
        return true;
    }
    if (join->run_key && refused_key(r, session, job, join)) {
        return true;
    }
    if (job_is_over(job)) {
        return refused_late(r, session, job, join);
    }
    if (agrees(job, &join->spec) || job_is_open_to(r, job, &join->spec)) {
        return false;
    }
    struct job_spec at_commit = join->spec;
    at_commit.commit = job->spec.commit;
    if (agrees(job, &at_commit)) {
        refuse_commit(r, session, job, join);
        return true;
    }
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    text_addf(&text, "job %s was opened with", job->name.text);
    bool has_roles = layout_has_roles(&job->spec) || layout_has_roles(&join->spec);
    add_sizes(&text, &job->spec, has_roles);
    text_add(&text, ", this node requests");
    add_sizes(&text, &join->spec, has_roles);
    refuse(r, session, REFUSAL_SIZE_MISMATCH, r->sentence);
    return true;
}

/* Refuses a new node if a limit is reached. Returns true if it was refused. A disconnected node
 * counts while its lease lasts; otherwise newcomers could take the places of a restarted server's
 * members. */
static bool refused_for_limit(struct rdzv *r, uint32_t session, const struct job *job)
{
    if (!join_limit_is_reached(r, job)) {
        return false;
    }
    refuse(r, session, REFUSAL_LIMIT_REACHED, r->sentence);
    return true;
}

/* --- admission -------------------------------------------------------------------------------- */

/* If the epoch number is raised, spares that were READY have this long to repeat READY for the new
 * number before a switch continues without them. */
#define READY_AGAIN_MS 1000

/* If the node has seen a later epoch than the server knows, raises the next epoch's number above it
 * and sends PREPARE again to the nodes that are READY for the old number. If the node's number is
 * not credible, the node gets no PREPARE (probe_prepare), because it would follow no epoch. */
static void raise_epoch(struct rdzv *r, const struct node *by)
{
    struct job *job = by->job;
    uint64_t seen = by->highest_epoch;
    if (!epoch_raise_number(job, seen)) {
        if (seen > job->epoch.highest) {
            text_setf(r->sentence, sizeof(r->sentence),
                      "it reports epoch %llu, which is far above this job's epoch: it joins only "
                      "epochs above that number",
                      (unsigned long long)seen);
            send_trace(r, TRACE_NODE_REFUSED, job, by, seen, r->sentence);
        }
        return;
    }
    job->n_ready = 0;
    uint32_t spares = 0;
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node_is_connected(node) && !epoch_engages(job, node) && !node->report.is_given) {
            spares += node->ready.epoch != 0 && !node_is_member(node);
            node_prepare(r, node);
        }
    }
    if (job->phase.raised_spares == 0) {
        job->phase.raised_spares = spares;
        job->phase.raised_until = tfe_mono_add(r->now, READY_AGAIN_MS);
    }
}

/* Handles a node that was in an epoch that the job's record does not know, or in a different epoch
 * of the same number: the database was lost, or an older copy was restored. No new epoch starts
 * beside the unknown one, whose trainers continue until their fence. */
static void check_unknown_epoch(const struct rdzv *r, struct node *node,
                                const struct msg_join *join)
{
    struct job *job = node->job;
    const struct epoch *epoch = &job->epoch;
    uint64_t in = join->exited ? join->exited->epoch : 0;
    in = join->running_epoch > in ? join->running_epoch : in;
    bool is_unknown =
        in > epoch->number || (in == epoch->number && epoch->n_slots > 0 && !node_is_member(node));
    if (!is_unknown || join->evaluates || in > epoch->highest || !rebuild_believes(join) ||
        !fence_await_unknown(r, &job->fence)) {
        return;
    }
    if (join->running_epoch != 0) {
        lease_set_left(node, join->running_epoch);
        fence_extend_run(&job->fence, node->lease.fence_end);
    }
    /* if the job's end is being written, the request has no effect */
    if (job->state == JOB_COMMITTING) {
        switch_request(job, CAUSE_SERVER_LOST, NULL);
    }
}

/* Appends a warning if more nodes are pinned to a role than it has replicas. */
static void add_pinned(struct text *text, struct job *job, const struct node *newcomer)
{
    uint32_t replicas = layout_replicas_of(&job->spec, newcomer->role);
    uint32_t n = 0;
    const struct node *other = NULL;
    struct node *node;
    if (!newcomer->has_role || job->n_nodes <= replicas) {
        return; /* avoids ten thousand × ten thousand checks when as many nodes join */
    }
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->has_role && node->role == newcomer->role && !node->is_gone) {
            n++;
            other = node == newcomer ? other : node;
        }
    }
    if (n > replicas && other) {
        const char *role = msg_task_name(newcomer->role);
        text_addf(text,
                  "%s--role %s: job %s has %u replicas of this role and %u nodes pinned to it, "
                  "including %s: a node without a slot waits as a spare until another one is lost",
                  text->n ? "; " : "", role, job->name.text, replicas, n, other->name);
    }
}

/* Returns a text that names the newcomer's options that have no effect, or NULL if all have. */
static const char *ignored_options(struct rdzv *r, struct job *job, const struct node *node,
                                   const struct msg_join *join)
{
    struct text text;
    text_init(&text, r->welcome, sizeof(r->welcome));
    if (join->new_run && !job->run.is_new) {
        text_addf(&text, "--new-run is ignored: run %u of job %s has not ended; this node joins it",
                  job->run.number, job->name.text);
    }
    if (join->spec.min_nodes != job->spec.min_nodes ||
        join->spec.max_nodes != job->spec.max_nodes) {
        text_addf(&text, "%s--nnodes is ignored: an operator has set the sizes of job %s to %u:%u",
                  text.n ? "; " : "", job->name.text, job->spec.min_nodes, job->spec.max_nodes);
    }
    if (join->spec.n_ps != job->spec.n_ps) {
        text_addf(&text, "%s--ps is ignored: an operator has set the ps of job %s to %u",
                  text.n ? "; " : "", job->name.text, job->spec.n_ps);
    }
    add_pinned(&text, job, node);
    return text.n ? r->welcome : NULL;
}

static void welcome(struct rdzv *r, struct node *node, const char *message)
{
    struct lease_terms terms = lease_terms(r, node);
    node->session.wait = 0; /* the agent forgets what it waited for */
    node->session.has_wait = false;
    send_node(r, node, MSG_WELCOME)->u.welcome = (struct msg_welcome){
        .node = node->id.text,
        .incarnation = r->config.incarnation,
        .run = node->job->run.number,
        .ttl_ms = terms.ttl_ms,
        .fence_ms = terms.fence_ms,
        .renew_ms = terms.ttl_ms / 3,
        .spread_ms = node_note_spread(node, node_spread_ms(node, terms.ttl_ms)),
        .stop_grace_ms = node->job->spec.stop_grace_ms,
        .message = message,
    };
}

/* --- decision by the epoch that runs on the node --- */

/* What the job's record and the JOIN say of the node's part in the current epoch. */
enum standing {
    IS_TAKEN_OVER = 1u << 0, /* the slot belongs to an earlier process, whose trainers may live */
    IS_ENGAGED = 1u << 1,    /* member of an epoch that runs or is about to start */
    IS_OPEN = 1u << 2,       /* such a member, whose trainers are not accounted for */
    IS_OTHER = 1u << 3,      /* an open member, whose JOIN is about another epoch of this number */
    IS_IN_IT = 1u << 4,      /* the JOIN says that trainers of the epoch run */
    IS_UNSEEN = 1u << 5,     /* the JOIN says that the node has seen only older epochs */
    IS_ENDED = 1u << 6,      /* the JOIN says how the trainers of the epoch have ended */
    IS_SERVING = 1u << 7,    /* its trainers run, and the chief needs them to save */
};

/* Consequences. STOP is sent only if trainers run, and an ending is handled only if there is one.
 */
enum consequence {
    DO_STOP = 1u << 0,
    DO_LOSE = 1u << 1,  /* no trainer of the member runs any more: continue without it */
    DO_START = 1u << 2, /* TABLE and START were lost with the connection */
    DO_PREPARE = 1u << 3,
    DO_END = 1u << 4, /* handle how the trainers have ended */
};

/* The first rule applies of which all facts are true. */
static const struct {
    unsigned is;
    unsigned does;
} rules[] = {
    {IS_TAKEN_OVER | IS_ENGAGED, DO_STOP | DO_LOSE},
    {IS_TAKEN_OVER,
     DO_STOP | DO_PREPARE},        /* DO_PREPARE: the other members have received PREPARE before */
    {IS_OTHER, DO_STOP | DO_LOSE}, /* the server lost records and reused the number */
    {IS_OPEN | IS_IN_IT, 0},       /* the member continues in its slot */
    {IS_OPEN | IS_UNSEEN, DO_START},
    {IS_SERVING, 0}, /* STOP follows once the chief has saved, as for the other members */
    {IS_OPEN | IS_ENDED, DO_STOP | DO_END},
    {IS_OPEN, DO_STOP | DO_LOSE}, /* the member has started the epoch and runs it no more */
    {IS_ENGAGED, DO_STOP | DO_END},
    {0, DO_STOP | DO_PREPARE | DO_END},
};

static unsigned standing_of(const struct node *node, const struct msg_join *join)
{
    const struct job *job = node->job;
    const struct epoch *epoch = &job->epoch;
    const bool is_in_it = join->running_epoch == epoch->number;
    const bool has_ended = join->exited && join->exited->epoch == epoch->number;
    unsigned is = epoch_engages(job, node) ? IS_ENGAGED : 0;
    is |= node->slot.is_taken_over ? IS_TAKEN_OVER : 0;
    is |= (is & IS_ENGAGED) && !node->slot.is_accounted ? IS_OPEN : 0;
    is |= is_in_it ? IS_IN_IT : 0;
    is |= has_ended ? IS_ENDED : 0;
    if ((is & IS_OPEN) && join->running && join->running->digest != epoch->digest &&
        (is_in_it || has_ended)) {
        is |= IS_OTHER;
    }
    is |= join->highest_epoch < epoch->number ? IS_UNSEEN : 0;
    if (job->state == JOB_PREPARING && !tfe_mono_is_never(job->phase.serve_until) &&
        node_is_member(node) && !layout_is_chief(job, node) && is_in_it) {
        is |= IS_SERVING;
    }
    return is;
}

/* Sends TABLE and START again to a member that has not received them. */
static void start_again(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    if (slot_void_start(node)) {
        if (node->slot.is_restored) {
            /* another process may have the id, as in is_another */
            slot_take_over(node, node->lease.fence_end);
        }
        /* the member repeatedly answers START with JOIN: continue without it */
        switch_request(job, CAUSE_NODE_LOST, NULL);
    } else if (job->epoch.is_open) {
        epoch_resend_start(r, job, node);
    }
}

/* Tells a node that has joined what to do, based on what its JOIN says is running there. */
static void resume_or_stop(struct rdzv *r, struct node *node, const struct msg_join *join)
{
    const unsigned is = standing_of(node, join);
    const bool has_ending = (is & IS_ENDED) && !(is & IS_OTHER);
    size_t rule = 0;
    while ((is & rules[rule].is) != rules[rule].is) {
        rule++;
    }
    const unsigned does = rules[rule].does;
    if (join->exited && !has_ending) {
        /* of another epoch: acknowledge it and ignore its content */
        send_noted(r, node, join->exited->epoch);
    }
    if (!(is & (IS_TAKEN_OVER | IS_OTHER)) && worker_handle_join(r, node, join)) {
        return;
    }
    if ((does & DO_STOP) && join->running_epoch != 0) {
        states_stop_late(r, node, join->running_epoch);
    }
    if (does & DO_LOSE) {
        slot_account(node);
        worker_lose(r, node, CAUSE_NODE_LOST);
    }
    if (does & DO_START) {
        start_again(r, node);
    }
    if (does & DO_PREPARE) {
        node_prepare(r, node);
    }
    if ((does & DO_END) && has_ending) {
        ending_handle(r, node, join->exited, true);
    }
}

/* Returns true if, by all that is known, another process has joined with this node's id (a machine
 * image with a stored id). After a restart that includes a process that has not seen the epoch and
 * cannot join it any more. */
static bool is_another(const struct node *node, const struct msg_join *join)
{
    const struct job *job = node->job;
    return (node->slot.is_restored && !epoch_engages(job, node) &&
            join->highest_epoch < job->epoch.number) ||
           (node->proof_hash.text[0] && join->proof_hash &&
            strcmp(node->proof_hash.text, join->proof_hash) != 0) ||
           (node->pid != 0 && join->pid != 0 && node->pid != join->pid) ||
           join->highest_epoch < node->highest_epoch;
}

/* Returns true if the job is being rebuilt and uses this node's report: its trainers continue then.
 */
static bool adds_report(struct rdzv *r, struct node *node, const struct msg_join *join)
{
    if (rebuild_needs_report(r, node->job, join) && rebuild_add_report(r, node, join)) {
        return true;
    }
    report_forget(node);
    return false;
}

/* Copies the node's properties from its JOIN. */
static void learn(struct node *node, struct holder by, const struct msg_join *join)
{
    node_note_epoch(node, join->highest_epoch);
    node->joined_by = by;
    if (!node->job->opened_by.is_known) { /* a new job, or one that the server has loaded */
        node->job->opened_by = by;
    }
    node->pid = join->pid;
    node->is_durable = join->durable;
    node->has_role = join->has_role;
    node->role = join->role;
    node->has_fixed_ports = join->fixed_ports;
    node_set_proof(node, join->proof_hash, join->guard_port);
}

/* Applies the JOIN of a node that has been attached to its session. */
static void admit(struct rdzv *r, struct node *node, const struct msg_join *join, bool is_new)
{
    bool reports = adds_report(r, node, join);
    welcome(r, node, is_new ? ignored_options(r, node->job, node, join) : NULL);
    bool evaluates = !reports && evaluator_handle_join(r, node, join);
    raise_epoch(r, node);
    if (!reports && !evaluates) {
        check_unknown_epoch(r, node, join);
        resume_or_stop(r, node, join);
    }
    drain_end(r, node);
    job_touch(node->job);
    (void)version_note(r, node, join->tensorflow);
}

/* Handles that another process has joined with the id of a node whose fence ends at fence_end. */
static void take_over(struct rdzv *r, struct node *node, struct tfe_mono fence_end)
{
    if (node_evaluates(node)) {
        evaluator_clear(&node->job->evaluator);
    }
    slot_take_over(node, fence_end);
    notice_forget(node); /* The notice was about another machine. */
    node->is_spot = false;
    node->is_unfit = false;
    worker_note_takeover(r, node);
    node->highest_epoch = 0;
    probe_forget(node);
}

static void join_known(struct rdzv *r, struct node *node, uint32_t session,
                       const struct msg_join *join)
{
    bool is_another_process = is_another(node, join);
    struct tfe_mono fence_end = node->lease.fence_end;
    if (node->session.number != session) {
        uint32_t older = node->session.number;
        node_detach(r, node);
        if (older != NO_SESSION) {
            send_refused(r, older, REFUSAL_NODE_REPLACED,
                         "this node has joined on a newer connection");
        }
        node_attach(r, node, session);
        send_trace(r, TRACE_NODE_BACK, node->job, node, 0, node->name);
    } else {
        ready_set(node, 0);
        (void)lease_renew(r, node);
    }
    if (is_another_process) {
        take_over(r, node, fence_end);
    }
    learn(node, sender_holder(r), join);
    admit(r, node, join, false);
}

static void join_new(struct rdzv *r, struct job *job, struct node *node, uint32_t session,
                     const struct msg_join *join)
{
    /* Nodes that join at the same moment are equally senior, so that the order of messages decides
     * nothing. */
    if (r->joins == 0 || r->last_join.ms != r->now.ms) {
        r->joins++;
    }
    r->last_join = r->now;
    node->join_order = r->joins;
    node_insert(job, node);
    learn(node, sender_holder(r), join);
    node_attach(r, node, session);
    job->last_join = r->now;
    send_trace(r, TRACE_NODE_JOINED, job, node, 0, node->name);
    admit(r, node, join, true);
}

/* Reserves memory for adds_report. Returns 0 or TFE_ENOMEM. */
static int reserve_report(struct rdzv *r, struct job *job, struct node *node,
                          const struct msg_join *join)
{
    return rebuild_needs_report(r, job, join) &&
                   (rebuild_reserve(r, job, join) || ready_reserve(r, node, join->running->host))
               ? TFE_ENOMEM
               : 0;
}

/* Allocates a new node and, if needed, its job or the job's next run. Returns TFE_ENOMEM; nothing
 * has changed then. */
static int open_job_and_node(struct rdzv *r, struct job **job, const struct msg_join *join,
                             struct node **ret_node)
{
    struct job *fresh = NULL;
    if (!*job) {
        fresh = job_new(r, join->job, &join->spec, join->run_key);
        if (!fresh) {
            return TFE_ENOMEM;
        }
    }
    struct job *into = fresh ? fresh : *job;
    struct node *node = node_new(r, join->node, join->node_name, join->spec.nproc);
    if (!node || job_reserve(r, into, (size_t)into->n_nodes + 1, &join->spec) ||
        reserve_report(r, into, node, join)) {
        node_free(r, node);
        if (fresh) {
            job_free(r, fresh);
        }
        return TFE_ENOMEM;
    }
    if (fresh) {
        job_insert(r, fresh);
        send_trace(r, TRACE_JOB_STATE, fresh, NULL, 0, job_state_name(fresh->state));
    }
    if (job_is_over(into)) {
        bool should_continue = is_of_later_run(into, join);
        /* the JOIN may begin a run, or it would have been refused */
        job_begin_run(r, into, &join->spec, join->run_key);
        if (should_continue) {
            run_go_on(into, join->running->run);
        }
        send_trace(r, TRACE_JOB_STATE, into, NULL, into->run.number, job_state_name(into->state));
    }
    bool is_other =
        !agrees(into, &join->spec) || join->spec.script_digest != into->spec.script_digest;
    if (is_other && job_is_open_to(r, into, &join->spec)) {
        /* no other node is in the job, so its options may change (edited command) */
        job_change(r, into, &join->spec);
    }
    *job = into;
    *ret_node = node;
    return 0;
}

int on_join(struct rdzv *r, uint32_t session, const struct msg_join *join, struct job **ret_job)
{
    if (!is_valid(join)) {
        return TFE_EINVAL;
    }
    struct job *job = job_find(r, join->job);
    struct node *node = job ? node_find(job, join->node) : NULL;
    if (join->highest_epoch >= MSG_EPOCH_LIMIT &&
        (!job || join->highest_epoch > job->epoch.highest)) {
        return TFE_EINVAL;
    }
    const struct node *holder = r->by_session[session];
    if (holder && holder != node) {
        return TFE_ESTATE; /* a connection belongs to one node */
    }
    if (actions_reserve(r, job)) {
        return TFE_ENOMEM;
    }
    *ret_job = job;
    if (refused_as_evicted(r, session, node, join)) {
        return 0;
    }
    if (job && refused(r, session, job, join)) {
        if (holder) {
            node_detach(r, node);
            job_touch(job);
        }
        return 0;
    }
    if (node) {
        if (reserve_report(r, job, node, join)) {
            return TFE_ENOMEM;
        }
        join_known(r, node, session, join);
        return 0;
    }
    if (refused_for_limit(r, session, job)) {
        return 0;
    }
    int rc = open_job_and_node(r, ret_job, join, &node);
    if (rc == 0) {
        join_new(r, *ret_job, node, session, join);
    }
    return rc;
}
