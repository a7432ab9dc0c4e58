/* server/core/told.c: progress of an epoch, as its members report it. */
#include "server/core/told.h"

#include "server/core/job.h"

void told_begin(struct job *job)
{
    job->told = (struct told){.first = TFE_MONO_NEVER,
                              .last = TFE_MONO_NEVER,
                              .last_save = TFE_MONO_NEVER,
                              .last_kept = TFE_MONO_NEVER};
}

/* Notes the time of reported progress. */
static void note_progress(struct told *told, struct tfe_mono now)
{
    told->first = tfe_mono_min(told->first, now);
    told->last = now;
}

bool told_step(struct job *job, struct tfe_mono now, uint64_t step)
{
    struct told *told = &job->told;
    if (told->has_step && step <= told->step) {
        return false;
    }
    told->has_step = true;
    told->step = step;
    note_progress(told, now);
    return true;
}

bool told_saved_step(struct job *job, uint64_t step)
{
    struct told *told = &job->told;
    if (told->has_saved && step <= told->saved_step) {
        return false;
    }
    told->has_saved = true;
    told->saved_step = step;
    return true;
}

bool told_saves(struct job *job, struct tfe_mono now, uint32_t saves, bool is_news)
{
    struct told *told = &job->told;
    if (saves <= told->saves) {
        return false;
    }
    told->saves = saves;
    told->last_save = is_news ? now : told->last_save;
    note_progress(told, now);
    return true;
}

bool told_kept(struct job *job, struct tfe_mono now, const struct msg_memory *memory, bool is_news)
{
    struct told *told = &job->told;
    if (!memory->has_kept || memory->epoch != job->epoch.number ||
        (told->has_kept && memory->step <= told->kept_step)) {
        return false;
    }
    told->has_kept = true;
    told->kept_step = memory->step;
    told->last_kept = is_news ? now : told->last_kept;
    return true;
}

bool told_from(struct job *job)
{
    struct told *told = &job->told;
    if (told->has_from) {
        return false;
    }
    told->has_from = true;
    return true;
}

bool told_answer(struct job *job, uint64_t answers)
{
    struct told *told = &job->told;
    if (answers <= told->answers) {
        return false;
    }
    told->answers = answers;
    return true;
}

bool told_ends(struct job *job, bool ends)
{
    bool is_news = ends && !job->told.ends;
    job->told.ends |= ends;
    return is_news;
}

void told_partitioned(struct job *job, bool partitioned)
{
    job->told.partitioned |= partitioned;
}

void told_listens(struct job *job, bool listens)
{
    job->told.n_listen += listens ? 1 : UINT32_MAX;
}

bool told_safe_step(struct job *job, uint64_t *ret_step)
{
    bool has = job->plan.has_saved;
    uint64_t step = has ? job->plan.saved_step : 0;
    struct node *node;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        const struct msg_memory m = node->ready.memory;
        bool stays = !node->is_gone && !node->seat.is_dead && !node->notice.is_leaving;
        if (stays && m.has_kept && m.epoch == job->epoch.number && (!has || m.step > step)) {
            has = true;
            step = m.step;
        }
    }
    *ret_step = step;
    return has;
}
