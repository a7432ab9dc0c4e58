/* server/core/rebuild.c: a job whose record is lost, put together from what its members say (DESIGN
 * 6).
 *
 *     WAITING, GATHERING --JOIN with running--> REBUILDING --all, or most of them in time-->
 * RUNNING
 *                                                    |
 *                                                    +-- too few: their word may be of an epoch
 * that others have left: fences, then a new epoch
 *
 * The highest epoch that anybody runs counts. Its members train on meanwhile, and if all of them
 * are back none is restarted. Who is missing after one lease is lost: a lease is what it had to
 * come back, as after any restart. */
#include "server/core/rebuild.h"

#include <string.h>

#include "server/core/core.h"
#include "server/core/events.h"

/* The epoch that the JOIN's RUNNING is about. */
static uint64_t epoch_of(const struct msg_join *join)
{
    return join->running_epoch != 0 || !join->exited ? join->running_epoch : join->exited->epoch;
}

bool rebuild_wants(const struct job *job, const struct msg_join *join)
{
    const struct rebuild *rebuild = &job->rebuild;
    const struct msg_running *running = join->running;
    uint64_t epoch = epoch_of(join);
    return running && job->epoch.number == 0 && job->durable_epoch == 0 && !job->write.is_open &&
           (job->state == JOB_WAITING || job->state == JOB_GATHERING ||
            job->state == JOB_REBUILDING) &&
           (epoch > rebuild->epoch ||
            (epoch == rebuild->epoch && running->run == rebuild->run &&
             running->nodes == rebuild->nodes && running->digest == rebuild->digest));
}

int rebuild_reserve(struct rdzv *r, struct job *job, const struct msg_join *join)
{
    if (!job->nobody) {
        job->nobody =
            node_new(r, &(struct msg_join){.node_name = "not heard of", .nproc = join->nproc});
        if (!job->nobody) {
            return TFE_ENOMEM;
        }
        (void)id_set(&job->nobody->id, "unknown");
        job->nobody->job = job;
        job->nobody->gone = true;
    }
    /* Most of the members will be there before their number counts: no word of one node makes the
     * server hold much. */
    return job_reserve(r, job, 2 * ((size_t)job->n_nodes + 1), join->max_nodes, join->nproc);
}

static bool is_taken(struct job *job, uint32_t seat)
{
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->reports && node->report.seat == seat) {
            return true;
        }
    }
    return false;
}

/* Those who run an older epoch do not belong to it any more. */
static void overtake(struct rdzv *r, struct job *job)
{
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->reports) {
            rebuild_forget(node);
            if (node->session != NO_SESSION) {
                send_to(r, node->session, MSG_STOP)->u.stop.epoch = job->rebuild.epoch;
                node_prepare(r, node);
            }
        }
    }
}

bool rebuild_take(struct rdzv *r, struct node *node, const struct msg_join *join)
{
    struct job *job = node->job;
    struct rebuild *rebuild = &job->rebuild;
    const struct msg_running *running = join->running;
    if (epoch_of(join) > rebuild->epoch) {
        overtake(r, job);
        if (rebuild->epoch == 0) {
            rebuild->until = lease_end_from(r, job, r->now);
        }
        rebuild->epoch = epoch_of(join);
        rebuild->run = running->run;
        rebuild->nodes = running->nodes;
        rebuild->digest = running->digest;
        rebuild->cause = running->cause;
        job->run = running->run;
    }
    uint32_t seat = running->rank / job->nproc;
    if (!node->reports && is_taken(job, seat)) {
        return false;
    }
    rebuild_forget(node);
    node->reports = true;
    node->report = (struct report){.seat = seat, .ran = join->running_epoch != 0};
    if (join->exited && join->exited->epoch == rebuild->epoch) {
        rebuild_take_end(node, join->exited);
    }
    rebuild->n_reported++;
    memcpy(node->host, running->host, strlen(running->host) + 1);
    memcpy(node->ports, running->ports, running->n_ports * sizeof(*running->ports));
    return true;
}

void rebuild_take_end(struct node *node, const struct msg_exited *exited)
{
    node->report.has_ended = true;
    node->report.stopped = exited->stopped;
    node->report.code = (uint8_t)exited->code;
    node->report.signal = (uint8_t)exited->signal;
}

void rebuild_forget(struct node *node)
{
    if (node->reports) {
        node->reports = false;
        node->job->rebuild.n_reported--;
    }
}

static struct tfe_mono fence_end(const struct rdzv *r, const struct job *job)
{
    return lease_fence_end_from(r->now,
                                lease_fence_ms(r, job->rebuild.nodes, lease_ttl_ms(r, job)));
}

static void seat_members(struct rdzv *r, struct job *job)
{
    struct epoch *epoch = &job->epoch;
    struct tfe_mono fenced = fence_end(r, job);
    job->nobody->lease.fence_end = fenced;
    for (uint32_t seat = 0; seat < epoch->n_seats; seat++) {
        epoch->seats[seat] = job->nobody;
    }
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->reports) {
            epoch->seats[node->report.seat] = node;
            node->seat = node->report.seat;
            node->listening = node->report.listening;
            node->started = true;
            node->accounted = false;
            node->lease.fence_end = tfe_mono_max(node->lease.fence_end, fenced);
        }
    }
}

/* False: they contradict each other. */
static bool adopt(struct rdzv *r, struct job *job)
{
    struct rebuild *rebuild = &job->rebuild;
    struct epoch *epoch = &job->epoch;
    bool is_whole = rebuild->n_reported == rebuild->nodes;
    if (rebuild->nodes > job->cap_seats || rebuild->nodes * job->nproc > job->cap_rows) {
        return false;
    }
    epoch->number = rebuild->epoch;
    epoch->n_seats = rebuild->nodes;
    seat_members(r, job);
    epoch_make_table(job);
    if (is_whole && epoch->digest != rebuild->digest) {
        for (uint32_t seat = 0; seat < epoch->n_seats; seat++) {
            epoch->seats[seat]->seat = NO_SEAT;
        }
        epoch->number = 0;
        epoch->n_seats = 0;
        return false;
    }
    epoch->digest = rebuild->digest;
    epoch->cause = rebuild->cause;
    epoch->opened = true;
    epoch->adopted = true;
    epoch->started = r->now;
    plan_begin_epoch(r, job);
    plan_forget_standstill(job);
    ledger_adopt(job);
    epoch->n_accounted = 0;
    job->is_first_epoch = false;
    if (!is_whole) {
        job_want_switch(job, CAUSE_NODE_LOST);
    }
    send_trace(r, TRACE_REBUILT, job, NULL, rebuild->n_reported, NULL);
    *rebuild = (struct rebuild){.epoch = 0};
    if (is_whole) {
        write_job(r, job);
    }
    return true;
}

void rebuild_judge(struct rdzv *r, struct job *job)
{
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->reports && node->report.has_ended) {
            const struct report *report = &node->report;
            /* What they died of does not fit in here, and without it nobody can be charged: who did
             * not end well counts as ended by its own agent, for the server was away. */
            struct msg_exited exited = {.epoch = job->epoch.number,
                                        .code = report->code,
                                        .signal = report->signal,
                                        .stopped = report->stopped,
                                        .tail = ""};
            exited.stopped = !exited_well(&exited);
            if (node->session != NO_SESSION) {
                send_to(r, node->session, MSG_NOTED)->u.noted.epoch = job->epoch.number;
            }
            judge_exited(r, node, &exited, true);
        }
        node->reports = false;
    }
}

static void give_up(struct rdzv *r, struct job *job)
{
    job->is_first_epoch = false; /* nobody has to be gathered any more */
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->reports && node->report.ran) {
            job->fenced_until = tfe_mono_max(job->fenced_until, fence_end(r, job));
        }
        if (node->reports && node->session != NO_SESSION) {
            send_to(r, node->session, MSG_STOP)->u.stop.epoch = job->rebuild.epoch;
            node_prepare(r, node);
        }
        node->reports = false;
    }
    job->rebuild = (struct rebuild){.epoch = 0};
}

enum rebuild_step rebuild_settle(struct rdzv *r, struct job *job)
{
    const struct rebuild *rebuild = &job->rebuild;
    bool is_late = is_past(r, rebuild->until);
    if (rebuild->n_reported < rebuild->nodes && !is_late) {
        return REBUILD_WAITS;
    }
    if (2 * rebuild->n_reported > rebuild->nodes && adopt(r, job)) {
        return REBUILD_ADOPTED;
    }
    give_up(r, job);
    return REBUILD_GIVEN_UP;
}
