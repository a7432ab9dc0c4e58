/* tests/sim/script.c: scripts that are on the agent's channel: they tell how far they are, save when asked to,
 * and may use the grace of a planned stop.
 *
 * A checkpoint needs all ranks, as one of a MultiWorkerMirroredStrategy does: it begins between two steps,
 * takes its time, in which no step is made, and comes to nothing if somebody is lost meanwhile. */
#include "tests/sim/script.h"

#include "tests/sim/check.h"
#include "tests/sim/node_agent.h"
#include "tests/sim/server.h"

/* Another look whether somebody who did not answer does so again. */
#define BLOCKED_LOOK_MS 100
/* From a saved `stop` to the end of the process. */
#define STOPPED_MS 5
/* Between two members' hearing of a stop, at most. */
#define HEARD_MS 700
/* A signalled agent with less time than this may be out before its trainers have saved. */
#define PATIENT_MS 20000

static void on_saved(struct world *w, const struct sim_event *event);
static void on_stop_saved(struct world *w, const struct sim_event *event);
static void on_grace_over(struct world *w, const struct sim_event *event);

static void tell(struct world *w, struct node *node, uint32_t local)
{
    if (node->agent) {
        node_agent_later(
            w, node, 1,
            (struct agent_event){.type = AGENT_PROGRESS, .local = local, .epoch = node->epoch});
    }
}

/* What the script of each rank knows, to the agents of all of them. */
static void tell_all(struct world *w, struct cluster *c)
{
    c->told_at = w->now;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        if (!c->members[rank].lives) {
            continue;
        }
        struct trainer *t = cluster_trainer(w, c, rank);
        t->told.has_step = true;
        t->told.step = c->step;
        if (!t->frozen) {
            tell(w, &w->nodes[c->members[rank].node], c->members[rank].local);
        }
    }
}

void script_up(struct world *w, struct node *node, uint32_t local)
{
    struct trainer *t = &node->trainers[local];
    const struct trainer_spec *spec = cluster_spec(w, t->cluster);
    t->told = (struct agent_progress){.listens = spec->listens != 0};
    if (spec->tell_ms) {
        tell(w, node, local);
    }
}

static void count_save(struct world *w, struct cluster *c)
{
    c->n_saves++;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        if (c->members[rank].lives) {
            struct trainer *t = cluster_trainer(w, c, rank);
            t->told.has_saved = true;
            t->told.saved_step = c->step;
            t->told.saves = c->n_saves;
            t->told.answers = t->heard_at_save;
        }
    }
}

/* Every script remembers what it had been asked for when the checkpoint began. */
static void begin_save(struct world *w, struct cluster *c)
{
    for (uint32_t rank = 0; rank < c->world; rank++) {
        if (c->members[rank].lives) {
            struct trainer *t = cluster_trainer(w, c, rank);
            t->heard_at_save = t->heard;
        }
    }
}

void script_stepped(struct world *w, struct cluster *c, bool saved)
{
    const struct trainer_spec *spec = cluster_spec(w, c);
    if (spec->tell_ms == 0) {
        return;
    }
    if (saved) {
        begin_save(w, c);
        count_save(w, c);
    }
    if (saved || w->now - c->told_at >= spec->tell_ms) {
        tell_all(w, c);
    }
    if (c->save_wanted && !c->saves) {
        c->save_wanted = false;
        c->saves = true;
        begin_save(w, c);
        world_at(w, w->now + spec->save_ms, on_saved, c->id, ++c->save_tag, 0);
    }
}

static void on_saved(struct world *w, const struct sim_event *event)
{
    struct cluster *c = cluster_by_id(w, event->who);
    if (!c || !c->saves || c->save_tag != event->tag || c->state != CLUSTER_TRAINING ||
        c->n_stopping > 0) {
        return;
    }
    if (c->n_blocked > 0 || c->hangs) {
        world_again(w, event, w->now + BLOCKED_LOOK_MS);
        return;
    }
    struct job *job = jobs_get(w, c->job);
    job->checkpoint = c->step > job->checkpoint ? c->step : job->checkpoint;
    c->saves = false;
    count_save(w, c);
    cluster_say(w, c, "saves", "");
    tell_all(w, c);
    cluster_go_on(w, c);
}

/* A script that listens, and is able to. */
static bool hears(struct world *w, const struct trainer *t)
{
    return t->state == TRAINER_UP && !t->frozen && !t->stopping && t->told.listens &&
           t->cluster->state == CLUSTER_TRAINING && !cluster_spec(w, t->cluster)->deaf;
}

void script_ask(struct world *w, struct node *node, uint64_t epoch, uint64_t number)
{
    for (uint32_t local = 0; epoch == node->epoch && local < node->cap_trainers; local++) {
        struct trainer *t = &node->trainers[local];
        if (hears(w, t) && t->cluster->epoch == epoch && number > t->heard) {
            t->heard = number;
            t->cluster->save_wanted = true;
        }
    }
}

void script_stop(struct world *w, struct node *node, uint32_t grace_ms)
{
    bool somebody = false;
    for (uint32_t local = 0; local < node->cap_trainers; local++) {
        struct trainer *t = &node->trainers[local];
        bool has_grace = t->state == TRAINER_UP && t->told.listens && grace_ms > 0;
        if (!has_grace) {
            trainer_kill(w, node, local);
            continue;
        }
        somebody = true;
        if (hears(w, t)) {
            struct cluster *c = t->cluster;
            t->stopping = true;
            if (++c->n_stopping == c->world) {
                world_at(w, w->now + cluster_spec(w, c)->save_ms, on_stop_saved, c->id, 0, 0);
            }
        }
    }
    if (somebody) {
        world_at(w, w->now + grace_ms, on_grace_over, node->index, node->process, node->epoch);
    }
}

static void on_stop_saved(struct world *w, const struct sim_event *event)
{
    struct cluster *c = cluster_by_id(w, event->who);
    if (!c || c->state != CLUSTER_TRAINING || c->n_stopping < c->world || c->n_blocked > 0) {
        return; /* somebody is gone, or does not answer: the grace will be over */
    }
    struct job *job = jobs_get(w, c->job);
    job->checkpoint = c->step > job->checkpoint ? c->step : job->checkpoint;
    count_save(w, c);
    tell_all(w, c);
    cluster_finish(w, c, "stops", STOPPED_MS);
}

/* A machine that was suspended may come back to a fence that is almost over: it ends its trainers. */
static bool fence_leaves(const struct world *w, const struct node *n, int64_t ms)
{
    return tfe_mono_is_never(n->fence) || clock_when(&n->clock, n->fence) > w->now + ms;
}

/* Whether its scripts have what they need to save at a planned stop: time, and all of them. */
static bool can_save(struct world *w, const struct cluster *c)
{
    const struct trainer_spec *spec = cluster_spec(w, c);
    const struct job *job = jobs_get(w, c->job);
    uint32_t grace_ms = server_config(w)->stop_grace_ms;
    bool can = c->state == CLUSTER_TRAINING && c->n_blocked == 0 && !c->hangs && spec->listens &&
               !spec->deaf && grace_ms * 9 / 10 > spec->save_ms + HEARD_MS &&
               !server_is_disturbed(w);
    for (uint32_t rank = 0; can && rank < c->world; rank++) {
        const struct node *node = &w->nodes[c->members[rank].node];
        bool is_hasty = node->signalled && job->preempt_grace_ms < PATIENT_MS;
        can = c->members[rank].lives && !is_hasty && node_is_well(w, node->index) &&
              !check_lease_stood(w->check, node->index) && fence_leaves(w, node, grace_ms);
    }
    return can;
}

void script_stop_sent(struct world *w, uint32_t job, uint64_t epoch, bool planned)
{
    struct cluster *c = cluster_of_epoch(w, job, epoch);
    if (c && c->stop_sent) {
        c->planned = c->planned && planned;
    } else if (c) {
        c->stop_sent = true;
        c->planned = planned && can_save(w, c);
    }
}

void script_disturb(struct world *w, uint32_t node)
{
    for (uint32_t i = node == NAMES_NONE ? 0 : node; i < w->n_nodes; i++) {
        for (uint32_t local = 0; local < w->nodes[i].cap_trainers; local++) {
            if (w->nodes[i].trainers[local].cluster) {
                w->nodes[i].trainers[local].cluster->planned = false;
            }
        }
        if (node != NAMES_NONE) {
            return;
        }
    }
}

static void on_grace_over(struct world *w, const struct sim_event *event)
{
    struct node *n = &w->nodes[event->who];
    if (n->process != event->tag || n->epoch != event->arg || !n->sweeping) {
        return;
    }
    if (!node_defers(w, event->who, event)) {
        node_kill_trainers(w, n);
    }
}
