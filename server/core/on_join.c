/* server/core/on_join.c: JOIN: a newcomer, or a known node on a new connection. */
#include <string.h>

#include "common/base/text.h"
#include "server/core/core.h"
#include "server/core/events.h"

/* STARTs that a node may answer with JOIN on one connection: it was past its lease, say. */
#define VOIDS_MAX 1

static bool running_is_sound(const struct msg_join *join)
{
    const struct msg_running *running = join->running;
    return (join->running_epoch > 0 || (join->exited && join->exited->epoch > 0 &&
                                        join->exited->epoch <= join->highest_epoch)) &&
           running->run >= 1 && running->nodes >= 1 && running->nodes <= MSG_NODES_MAX &&
           running->nodes <= join->max_nodes && running->world == running->nodes * join->nproc &&
           running->rank < running->world && running->rank % join->nproc == 0 &&
           running->n_ports == join->nproc && running->host && running->host[0] != '\0' &&
           strnlen(running->host, TFE_HOST_MAX + 1) <= TFE_HOST_MAX;
}

static bool is_sound(const struct msg_join *join)
{
    return id_is_valid(join->job) && id_is_valid(join->node) && join->node_name &&
           strnlen(join->node_name, TFE_LABEL_MAX + 1) <= TFE_LABEL_MAX && join->min_nodes >= 1 &&
           join->min_nodes <= join->max_nodes && join->max_nodes <= MSG_NODES_MAX &&
           join->nproc >= 1 && join->nproc <= MSG_NPROC_MAX &&
           join->running_epoch <= join->highest_epoch &&
           (!join->run_key || id_is_valid(join->run_key)) &&
           (!join->running || running_is_sound(join)) &&
           (!join->exited || exited_is_sound(join->exited, join->nproc));
}

static void refuse(struct rdzv *r, uint32_t session, enum tfe_refusal code)
{
    send_refused(r, session, code, r->sentence);
    send_trace(r, TRACE_NODE_REFUSED, NULL, NULL, (uint64_t)code, r->sentence);
    send_close(r, session);
}

static void add_sizes(struct text *text, uint32_t min, uint32_t max, uint32_t nproc)
{
    text_add(text, "--nnodes=");
    text_add_u64(text, min);
    text_add(text, ":");
    text_add_u64(text, max);
    text_add(text, " --nproc-per-node=");
    text_add_u64(text, nproc);
}

/* Whether the run that the node belongs to is not the one that is on or about to begin; it has been
 * answered then. */
static bool refused_key(struct rdzv *r, uint32_t session, struct job *job,
                        const struct msg_join *join)
{
    const struct past *past = late_find(job, join->run_key);
    bool is_last = strcmp(join->run_key, job->run_key.text) == 0;
    struct past last = late_last_run(job);
    if (job_is_over(job) && is_last) {
        past = &last;
    }
    if (past) {
        late_tell(r, job, past, session);
        return true;
    }
    if (job_is_over(job) || is_last) {
        return false;
    }
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    text_add(&text, "job ");
    text_add(&text, job->name.text);
    text_add(&text, " is in run ");
    text_add_u64(&text, job->run);
    text_add(&text, job->run_key.text[0] ? ", " : NULL);
    text_add(&text, job->run_key.text);
    text_add(&text, ": run ");
    text_add(&text, join->run_key);
    text_add(&text, " can begin once that has ended");
    refuse(r, session, REFUSAL_LIMIT_REACHED);
    return true;
}

/* Whether the JOIN is out of place for this job; it has been answered then. */
static bool refused(struct rdzv *r, uint32_t session, struct job *job, const struct msg_join *join)
{
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    if (join->run_key && refused_key(r, session, job, join)) {
        return true;
    }
    if (job_is_over(job)) {
        struct past last = late_last_run(job);
        if (join->run_key || join->new_run) {
            return false;
        }
        if (join->script_digest == job->script_digest) {
            late_tell(r, job, &last, session);
            return true;
        }
        late_add(&text, job, &last);
        text_add(&text, "; it takes no other script: use --new-run, or another --job name");
        refuse(r, session, REFUSAL_JOB_FINISHED);
        return true;
    }
    if (join->min_nodes != job->min_nodes || join->max_nodes != job->max_nodes ||
        join->nproc != job->nproc) {
        text_add(&text, "job ");
        text_add(&text, job->name.text);
        text_add(&text, " was opened with ");
        add_sizes(&text, job->min_nodes, job->max_nodes, job->nproc);
        text_add(&text, ", this node asks for ");
        add_sizes(&text, join->min_nodes, join->max_nodes, join->nproc);
        refuse(r, session, REFUSAL_SIZE_MISMATCH);
        return true;
    }
    return false;
}

/* Something has seen a later epoch than the server knows of: number above it, and ask those again
 * who are ready for a number that will not come. */
static void raise_epoch(struct rdzv *r, struct job *job, uint64_t seen)
{
    if (seen <= job->highest_epoch) {
        return;
    }
    job->highest_epoch = seen;
    job->n_ready = 0;
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->session != NO_SESSION && !job_engages(job, node) && !node->reports) {
            node_prepare(r, node);
        }
    }
}

static void welcome(struct rdzv *r, struct node *node)
{
    struct msg_welcome *w = &send_to(r, node->session, MSG_WELCOME)->u.welcome;
    w->node = node->id.text;
    w->incarnation = r->config.incarnation;
    w->run = node->job->run;
    struct lease_terms terms = lease_terms(r, node);
    uint32_t ttl = terms.ttl_ms;
    w->ttl_ms = ttl;
    w->fence_ms = terms.fence_ms;
    w->renew_ms = ttl / 3;
    w->spread_ms = node->told_spread_ms = node_spread_ms(node, ttl);
    w->stop_grace_ms = node->job->stop_grace_ms;
}

/* What a node that is in has to do now, by what it says runs there. */
static void put_in_place(struct rdzv *r, struct node *node, const struct msg_join *join)
{
    struct job *job = node->job;
    const struct epoch *epoch = &job->epoch;
    bool member = job_engages(job, node) && !node->accounted;
    const struct msg_exited *exited = join->exited;
    if (exited && exited->epoch != epoch->number) {
        /* Of an epoch that was taken leave of: says nothing about this one. */
        send_to(r, node->session, MSG_NOTED)->u.noted.epoch = exited->epoch;
        exited = NULL;
    }
    if (node->is_other) {
        /* The place is not its own: that one's trainers may live, and nobody has START to follow.
         */
        if (join->running_epoch != 0) {
            send_to(r, node->session, MSG_STOP)->u.stop.epoch = join->running_epoch;
        }
        job_want_switch(job, CAUSE_NODE_LOST);
        return;
    }
    if (member && join->running_epoch == epoch->number) {
        return; /* takes its place again */
    }
    if (member && join->highest_epoch < epoch->number) {
        if (node->told_visit == node->visit && ++node->n_void > VOIDS_MAX) {
            job_want_switch(job, CAUSE_NODE_LOST); /* it cannot follow, whatever the reason */
        } else if (job->epoch.opened) {
            epoch_tell_again(r, job, node); /* lost with the connection */
        }
        return;
    }
    if (join->running_epoch != 0) {
        send_to(r, node->session, MSG_STOP)->u.stop.epoch = join->running_epoch;
    }
    if (member && !exited) {
        node_account(node); /* it has started this epoch, and nothing of it runs */
        ledger_blame(job, node);
        job_want_switch(job, CAUSE_NODE_LOST);
    }
    if (!job_engages(job, node)) {
        node_prepare(r, node);
    }
    if (exited) {
        take_exited(r, node, exited, true);
    }
}

/* Whether another process has come with the id of this node's (an image with a baked id). */
static bool is_another(const struct node *node, const struct msg_join *join)
{
    return (node->pid != 0 && join->pid != 0 && node->pid != join->pid) ||
           join->highest_epoch < node->highest_epoch;
}

static void take_over(struct node *node, struct tfe_mono fence_end)
{
    if (node->seat != NO_SEAT && !node->accounted && !node->is_other) {
        node->is_other = true;
        node->other_fence_end = fence_end;
    }
    node->highest_epoch = 0;
    probe_forget(node);
}

/* Whether the job is being rebuilt, and from what the node says, too: it trains on then. */
static bool takes_report(struct rdzv *r, struct node *node, const struct msg_join *join)
{
    if (rebuild_wants(node->job, join) && rebuild_take(r, node, join)) {
        return true;
    }
    rebuild_forget(node);
    return false;
}

static void join_known(struct rdzv *r, struct node *node, uint32_t session,
                       const struct msg_join *join)
{
    bool another = is_another(node, join);
    struct tfe_mono fence_end = node->lease.fence_end;
    if (node->session != session) {
        uint32_t older = node->session;
        node_detach(r, node);
        if (older != NO_SESSION) {
            send_refused(r, older, REFUSAL_NODE_REPLACED,
                         "this node has joined again on a newer connection");
            send_close(r, older);
        }
        node_attach(r, node, session);
        send_trace(r, TRACE_NODE_BACK, node->job, node, 0, node->name);
    } else {
        node_set_ready(node, 0);
        (void)lease_renew(r, node);
    }
    if (another) {
        take_over(node, fence_end);
    }
    if (join->highest_epoch > node->highest_epoch) {
        node->highest_epoch = join->highest_epoch;
    }
    node->pid = join->pid;
    node->durable = join->durable;
    bool reports = takes_report(r, node, join);
    welcome(r, node);
    raise_epoch(r, node->job, join->highest_epoch);
    if (!reports) {
        put_in_place(r, node, join);
    }
    drain_end(r, node);
    job_settle(r, node->job);
    job_drop_if_unused(r, node->job);
}

/* Whether there is no place for a newcomer; it has been answered then. Who is away keeps its place
 * while its lease lasts, or newcomers would take it from the members of a server that was started
 * again. */
static bool refused_for_room(struct rdzv *r, uint32_t session, const struct job *job)
{
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    if (r->n_leases >= r->config.max_nodes) {
        text_add(&text, "the server has no room for more agents than ");
        text_add_u64(&text, r->config.max_nodes);
        text_add(&text, "; raise its limit of open files");
    } else if (!job && r->n_jobs >= CORE_JOBS_MAX) {
        text_add(&text, "this server remembers ");
        text_add_u64(&text, CORE_JOBS_MAX);
        text_add(&text, " jobs and takes no more names");
    } else {
        return false;
    }
    refuse(r, session, REFUSAL_LIMIT_REACHED);
    return true;
}

static bool is_same_moment(struct tfe_mono a, struct tfe_mono b)
{
    return a.ms == b.ms;
}

static void join_new(struct rdzv *r, struct job *job, struct node *node, uint32_t session,
                     const struct msg_join *join)
{
    node->job = job;
    (void)id_set(&node->id, join->node); /* is_sound */
    /* Who comes in the same moment is equal: the order of messages decides nothing. */
    if (r->joins == 0 || !is_same_moment(r->last_join, r->now)) {
        r->joins++;
    }
    r->last_join = r->now;
    node->join_order = r->joins;
    node->highest_epoch = join->highest_epoch;
    node->pid = join->pid;
    node->durable = join->durable;
    RB_INSERT(node_tree, &job->nodes, node);
    job->n_nodes++;
    node_attach(r, node, session);
    job->last_join = r->now;
    send_trace(r, TRACE_NODE_JOINED, job, node, 0, node->name);
    bool reports = takes_report(r, node, join);
    welcome(r, node);
    raise_epoch(r, job, join->highest_epoch);
    if (join->running_epoch != 0 && !reports) {
        send_to(r, session, MSG_STOP)->u.stop.epoch = join->running_epoch;
    }
    if (join->exited && !reports) {
        send_to(r, session, MSG_NOTED)->u.noted.epoch = join->exited->epoch;
    }
    if (!reports) {
        node_prepare(r, node);
    }
    job_settle(r, job);
}

int on_join(struct rdzv *r, uint32_t session, const struct msg_join *join)
{
    if (!is_sound(join)) {
        return TFE_EINVAL;
    }
    struct job *job = job_find(r, join->job);
    struct node *node = job ? node_find(job, join->node) : NULL;
    if (join->highest_epoch >= MSG_EPOCH_LIMIT &&
        (!job || join->highest_epoch > job->highest_epoch)) {
        return TFE_EINVAL;
    }
    const struct node *holder = r->by_session[session];
    if (holder && holder != node) {
        return TFE_ESTATE; /* one node a connection */
    }
    if (actions_reserve(r, job)) {
        return TFE_ENOMEM;
    }
    if (evict_refuses(r, session, node, join)) {
        return 0;
    }
    if (job && refused(r, session, job, join)) {
        if (holder) {
            node_detach(r, node);
            job_settle(r, job);
        }
        return 0;
    }
    if (node) {
        if (rebuild_wants(job, join) && rebuild_reserve(r, job, join)) {
            return TFE_ENOMEM;
        }
        join_known(r, node, session, join);
        return 0;
    }

    if (refused_for_room(r, session, job)) {
        return 0;
    }
    struct job *fresh = NULL;
    if (!job) {
        fresh = job = job_new(r, join);
        if (!job) {
            return TFE_ENOMEM;
        }
    }
    node = node_new(r, join);
    if (!node || job_reserve(r, job, (size_t)job->n_nodes + 1, join->max_nodes, join->nproc) ||
        (rebuild_wants(job, join) && rebuild_reserve(r, job, join))) {
        mem_free(r->mem, node);
        if (fresh) {
            job_free(r, fresh);
        }
        return TFE_ENOMEM;
    }
    if (fresh) {
        RB_INSERT(job_tree, &r->jobs, fresh);
        r->n_jobs++;
        send_trace(r, TRACE_JOB_STATE, fresh, NULL, 0, job_state_name(fresh->state));
    }
    if (job_is_over(job)) {
        job_begin_run(r, job, join); /* or it would have been refused */
        send_trace(r, TRACE_JOB_STATE, job, NULL, job->run, job_state_name(job->state));
    }
    join_new(r, job, node, session, join);
    return 0;
}
