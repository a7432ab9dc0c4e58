/* tests/sim/script.c: scripts on the agent's channel: they report progress, save on request, and
 * may use the grace of a planned stop.
 *
 * A checkpoint needs all ranks, as one of a MultiWorkerMirroredStrategy does: it begins between two
 * steps, takes some time in which no step is made, and is lost if a rank is lost meanwhile. After a
 * requested checkpoint the scripts stand still, as tfe.Checkpointer's do, until they are stopped or
 * it is clear that they will not be. */
#include "tests/sim/script.h"

#include "tests/sim/check.h"
#include "tests/sim/net.h"
#include "tests/sim/node_agent.h"
#include "tests/sim/server.h"

/* Interval for checking whether a trainer that did not respond does so again. */
#define BLOCKED_LOOK_MS 100
/* Time from a `stop` after saving to the end of the process. */
#define STOPPED_MS 5
/* tfe.Checkpointer's stand_still_s. */
#define STAND_MS 10000
/* Time from an answer until its STOP is received, if undisturbed: the server collects notices for 2
 * s and writes a record. */
#define HEED_MS 5000
/* Part of HEED_MS from the server's decision to its STOP. */
#define RECORD_MS 1500
/* Maximum time between the receipt of a stop by two members. */
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

/* In a cluster with ps only the chief knows its progress. */
static uint32_t n_tell(const struct cluster *c)
{
    return cluster_is_served(c) ? 1 : c->world;
}

/* Reports what the script of each rank knows to the rank's agent. */
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

/* Counts a checkpoint. answers: every rank's script reports it as the answer to the request. */
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

/* Returns true if the fence is almost over, so that the node ends its trainers: its machine may
 * have been suspended. */
static bool fence_leaves(const struct world *w, const struct node *n, int64_t ms)
{
    return tfe_mono_is_never(n->fence) || clock_when(&n->clock, n->fence) > w->now + ms;
}

/* Returns true if the cluster trains, and nothing disturbs the messages between its scripts and the
 * server, nor will within this time without a new fault. */
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

/* Takes a snapshot in memory, on all ranks alike. */
static void keep(struct world *w, const struct cluster *c)
{
    for (uint32_t rank = 0; rank < c->world; rank++) {
        w->nodes[c->members[rank].node].memory = (struct msg_memory){
            .bytes = 1, .has_snapshot = true, .epoch = c->epoch, .step = c->step};
    }
}

static void keep_answer(struct world *w, struct cluster *c)
{
    keep(w, c);
    for (uint32_t rank = 0; rank < c->world; rank++) {
        if (c->members[rank].lives) {
            struct trainer *t = cluster_trainer(w, c, rank);
            t->told.snapshot_answers = t->heard;
        }
    }
}

static void save(struct world *w, const struct cluster *c)
{
    struct job *job = jobs_get(w, c->job);
    job->checkpoint = c->step > job->checkpoint ? c->step : job->checkpoint;
}

/* Answers a SAVE. Precondition: the cluster stands still after it. */
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

/* Each rank goes on when the switch should have come by what it has received; the others wait for
 * it in the next step. */
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
        /* a request that came meanwhile is answered by this one too, because no step was made */
        false;
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

/* Returns true if the script listens and can respond. */
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
        return; /* a rank is gone or does not respond: the grace will run out */
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

/* Returns true if the scripts can save at a planned stop: they have time, and all ranks. */
static bool can_save(struct world *w, const struct cluster *c)
{
    const struct trainer_spec *spec = cluster_spec(w, c);
    uint32_t grace_ms = server_config(w)->defaults.stop_grace_ms;
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
    /* A cluster that goes on before it can know of the switch loses the work that follows. And a
     * late iteration of the server's loop reads reports that were sent earlier. */
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
