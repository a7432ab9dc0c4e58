/* tests/sim/script.c: scripts that are on the agent's channel: they tell how far they are, save
 * when asked to, and may use the grace of a planned stop.
 *
 * A checkpoint needs all ranks, as one of a MultiWorkerMirroredStrategy does: it begins between two
 * steps, takes its time, in which no step is made, and comes to nothing if somebody is lost
 * meanwhile. After one that was asked for the scripts stand still, as tfe.Checkpointer's do, until
 * they are stopped or it is clear that they will not be. */
#include "tests/sim/script.h"

#include "tests/sim/check.h"
#include "tests/sim/net.h"
#include "tests/sim/node_agent.h"
#include "tests/sim/server.h"

/* Another look whether somebody who did not answer does so again. */
#define BLOCKED_LOOK_MS 100
/* From a saved `stop` to the end of the process. */
#define STOPPED_MS 5
/* tfe.Checkpointer's stand_still_s. */
#define STAND_MS 10000
/* From an answer to its STOP's being heard, where nothing is in the way: the server collects
 * notices for 2 s, and writes a record. */
#define HEED_MS 5000
/* Of that, from the server's word to its STOP. */
#define RECORD_MS 1500
/* Between two members' hearing of a stop, at most. */
#define HEARD_MS 700

static void on_saved(struct world *w, const struct sim_event *event);
static void on_stood(struct world *w, const struct sim_event *event);
static void on_stop_saved(struct world *w, const struct sim_event *event);
static void on_grace_over(struct world *w, const struct sim_event *event);

static void tell(struct world *w, struct node *node, uint32_t local)
{
    if (node->agent) {
        node_agent_later(
            w, node, 1,
            (struct node_report){.type = AGENT_PROGRESS, .local = local, .epoch = node->epoch});
    }
}

/* A chief that is served knows alone what its cluster does. */
static uint32_t n_tell(const struct cluster *c)
{
    return cluster_is_served(c) ? 1 : c->world;
}

/* What the script of each rank knows, to the agents of all of them. */
static void tell_all(struct world *w, struct cluster *c)
{
    c->told_at = w->now;
    c->first_told_at = c->first_told_at ? c->first_told_at : w->now;
    uint32_t n = n_tell(c);
    for (uint32_t rank = 0; rank < n; rank++) {
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
    bool tells = t->rank < n_tell(t->cluster);
    t->told = (struct msg_progress){.listens = tells && spec->listens != 0};
    t->save_by = SIM_NEVER;
    if (spec->tell_ms && tells) {
        tell(w, node, local);
    }
}

/* answers: every rank's script says of this checkpoint what it has been asked for. */
static void count_save(struct world *w, struct cluster *c, bool answers)
{
    c->n_saves++;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        if (c->members[rank].lives) {
            struct trainer *t = cluster_trainer(w, c, rank);
            t->told.has_saved = true;
            t->told.saved_step = c->step;
            t->told.saves = c->n_saves;
            t->told.answers = answers ? t->heard : t->told.answers;
        }
    }
}

/* A machine that was suspended may come back to a fence that is almost over: it ends its trainers.
 */
static bool fence_leaves(const struct world *w, const struct node *n, int64_t ms)
{
    return tfe_mono_is_never(n->fence) || clock_when(&n->clock, n->fence) > w->now + ms;
}

/* Whether the cluster trains, and nothing is in the way between its scripts and the server, nor
 * will be for so long if no fault comes. */
static bool is_calm(struct world *w, const struct cluster *c, int64_t ms)
{
    bool calm =
        c->state == CLUSTER_TRAINING && c->n_blocked == 0 && !c->hangs && !server_is_disturbed(w);
    for (uint32_t rank = 0; calm && rank < c->world; rank++) {
        const struct node *node = &w->nodes[c->members[rank].node];
        calm = c->members[rank].lives && node_is_well(w, node->index) &&
               !check_lease_stood(w->check, node->index) && fence_leaves(w, node, ms);
    }
    return calm;
}

/* A snapshot, on all ranks alike. */
static void keep(struct world *w, const struct cluster *c)
{
    for (uint32_t rank = 0; rank < c->world; rank++) {
        w->nodes[c->members[rank].node].memory =
            (struct msg_memory){.bytes = 1, .has_kept = true, .epoch = c->epoch, .step = c->step};
    }
}

static void keep_answer(struct world *w, struct cluster *c)
{
    keep(w, c);
    for (uint32_t rank = 0; rank < c->world; rank++) {
        if (c->members[rank].lives) {
            struct trainer *t = cluster_trainer(w, c, rank);
            t->told.kept_answers = t->heard;
        }
    }
}

static void save(struct world *w, const struct cluster *c)
{
    struct job *job = jobs_get(w, c->job);
    job->checkpoint = c->step > job->checkpoint ? c->step : job->checkpoint;
}

/* Precondition: it stands where it was asked to save. */
static void answer(struct world *w, struct cluster *c)
{
    if (c->in_memory) {
        keep_answer(w, c);
    } else {
        save(w, c);
        count_save(w, c, true);
    }
    tell_all(w, c);
    c->frail = c->stands_until < w->now + HEED_MS || !is_calm(w, c, HEED_MS);
}

/* Each rank goes on when the switch should have come for all it has heard; the others wait for it
 * in the next step. */
static int64_t end_of_standing(struct world *w, const struct cluster *c)
{
    int64_t end = w->now;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        if (c->members[rank].lives) {
            int64_t by = cluster_trainer(w, c, rank)->save_by;
            by = by < w->now + STAND_MS ? by : w->now + STAND_MS;
            end = by > end ? by : end;
        }
    }
    return end;
}

void script_goes_on(struct world *w, struct cluster *c)
{
    for (uint32_t rank = 0; cluster_spec(w, c)->memory_every && rank < c->world; rank++) {
        struct trainer *t = cluster_trainer(w, c, rank);
        t->told.has_from = true;
        t->told.from_step = c->step;
    }
}

static void stand(struct world *w, struct cluster *c)
{
    c->saves = false;
    c->save_wanted =
        false; /* what was asked meanwhile is answered by this one too: no step was made */
    c->stands = true;
    c->stands_until = end_of_standing(w, c);
    cluster_say(w, c, c->in_memory ? "keeps" : "saves", "");
    answer(w, c);
    world_at(w, c->stands_until, on_stood, c->id, 0, 0);
}

uint64_t script_safe_step(struct world *w, const struct cluster *c)
{
    uint64_t step = jobs_get(w, c->job)->checkpoint;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        const struct node *n = &w->nodes[c->members[rank].node];
        if (!node_may_go(w, n) && n->memory.epoch == c->epoch && n->memory.step > step) {
            step = n->memory.step;
        }
    }
    return step;
}

bool script_is_news(struct world *w, const struct cluster *c)
{
    bool is_news = false;
    for (uint32_t rank = 0; rank < c->world; rank++) {
        const struct node *n = &w->nodes[c->members[rank].node];
        is_news = is_news || ((n->was_noticed || n->signalled) &&
                              n->warned_at > c->confirmed_at - 4 * (int64_t)net_latency(w));
    }
    return is_news;
}

void script_stepped(struct world *w, struct cluster *c, bool saved)
{
    const struct trainer_spec *spec = cluster_spec(w, c);
    if (spec->tell_ms == 0) {
        return;
    }
    if (saved) {
        count_save(w, c, false);
    }
    if (spec->memory_every && c->step % spec->memory_every == 0) {
        keep(w, c);
    }
    if (saved || w->now - c->told_at >= spec->tell_ms) {
        tell_all(w, c);
    }
    if (c->save_wanted && !c->saves && c->in_memory) {
        stand(w, c);
    } else if (c->save_wanted && !c->saves) {
        c->save_wanted = false;
        c->saves = true;
        world_at(w, w->now + spec->save_ms, on_saved, c->id, ++c->save_tag, 0);
    }
}

void script_ends(struct world *w, struct cluster *c)
{
    if (cluster_spec(w, c)->tell_ms == 0) {
        return;
    }
    for (uint32_t rank = 0; rank < c->world; rank++) {
        if (c->members[rank].lives) {
            cluster_trainer(w, c, rank)->told.ends = true;
        }
    }
    tell_all(w, c);
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
    c->in_memory = false;
    stand(w, c);
}

static void on_stood(struct world *w, const struct sim_event *event)
{
    struct cluster *c = cluster_by_id(w, event->who);
    if (c) {
        c->stands = false;
        cluster_go_on(w, c);
    }
}

/* A script that listens, and is able to. */
static bool hears(struct world *w, const struct trainer *t)
{
    return t->state == TRAINER_UP && !t->frozen && !t->stopping && t->told.listens &&
           t->cluster->state == CLUSTER_TRAINING && !cluster_spec(w, t->cluster)->deaf;
}

void script_ask(struct world *w, struct node *node, const struct agent_action *save)
{
    uint64_t epoch = save->save.epoch;
    uint64_t number = save->save.number;
    struct cluster *asked = NULL;
    for (uint32_t local = 0; epoch == node->epoch && local < node->cap_trainers; local++) {
        struct trainer *t = &node->trainers[local];
        if (hears(w, t) && t->cluster->epoch == epoch && number > t->heard) {
            t->heard = number;
            t->save_by = clock_when(&node->clock, save->save.deadline);
            asked = t->cluster;
        }
    }
    if (asked) {
        asked->in_memory = save->save.in_memory && cluster_spec(w, asked)->memory_every;
    }
    if (asked && asked->stands) {
        answer(w, asked);
    } else if (asked) {
        asked->save_wanted = true;
    }
}

void script_stop(struct world *w, struct node *node, uint32_t grace_ms, bool in_memory)
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
            if (++c->n_stopping == n_tell(c)) {
                c->in_memory = in_memory && cluster_spec(w, c)->memory_every;
                bool is_saved = c->in_memory || jobs_get(w, c->job)->checkpoint == c->step;
                world_at(w, w->now + (is_saved ? 0 : cluster_spec(w, c)->save_ms), on_stop_saved,
                         c->id, 0, 0);
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
    if (!c || c->state != CLUSTER_TRAINING || c->n_stopping < n_tell(c) || c->n_blocked > 0) {
        return; /* somebody is gone, or does not answer: the grace will be over */
    }
    if (c->in_memory) {
        keep(w, c);
    } else {
        save(w, c);
        count_save(w, c, false);
    }
    tell_all(w, c);
    cluster_finish(w, c, "stops", STOPPED_MS);
}

/* Whether its scripts have what they need to save at a planned stop: time, and all of them. */
static bool can_save(struct world *w, const struct cluster *c)
{
    const struct trainer_spec *spec = cluster_spec(w, c);
    uint32_t grace_ms = server_config(w)->wishes.stop_grace_ms;
    bool can = spec->listens && !spec->deaf && grace_ms * 9 / 10 > spec->save_ms + HEARD_MS &&
               is_calm(w, c, grace_ms);
    for (uint32_t rank = 0; can && rank < c->world; rank++) {
        const struct node *n = &w->nodes[c->members[rank].node];
        can = !n->signalled || n->out_by > w->now + grace_ms;
    }
    return can;
}

void script_confirmed(struct world *w, uint32_t job, uint64_t epoch)
{
    struct cluster *c = cluster_of_epoch(w, job, epoch);
    if (!c) {
        return;
    }
    /* Who goes on before it can hear of the switch loses what it does then; and what a late turn of
     * the server's loop reads after this was said before it. */
    bool is_late = (c->stands ? c->stands_until < w->now + HEED_MS : c->frail) ||
                   server_late_until(w) >= w->now;
    c->confirmed_at = !is_late && is_calm(w, c, HEED_MS) ? w->now : 0;
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
    if (c && (!planned || w->now - c->confirmed_at > RECORD_MS)) {
        c->confirmed_at = 0;
    }
}

void script_finish_sent(struct world *w, uint32_t node)
{
    const struct node *n = &w->nodes[node];
    struct cluster *c = n->cap_trainers ? n->trainers[0].cluster : NULL;
    if (c && c->evaluates && c->job == n->job) {
        c->planned = false;
    }
}

void script_disturb(struct world *w, uint32_t node)
{
    for (uint32_t i = node == NAMES_NONE ? 0 : node; i < w->n_nodes; i++) {
        for (uint32_t local = 0; local < w->nodes[i].cap_trainers; local++) {
            if (w->nodes[i].trainers[local].cluster) {
                struct cluster *c = w->nodes[i].trainers[local].cluster;
                c->planned = false;
                c->calm = c->warned = false;
                c->confirmed_at = 0;
                c->frail = c->stands_until != 0;
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
