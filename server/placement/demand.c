/* server/placement/demand.c: what jobs want and what there is, for who orders machines. */
#include <string.h>

#include "server/placement/part.h"

const char *placement_label(const struct placement *p, size_t at, uint8_t tasks, size_t *cursor)
{
    const struct place_job *job = p->jobs[at];
    while (*cursor < job->n_bytes) {
        const char *label = job->labels + *cursor;
        *cursor += strlen(label + 1) + 2;
        if ((uint8_t)label[0] & tasks) {
            return label + 1;
        }
    }
    return NULL;
}

/* Whether nodes for both must carry the same labels. */
static bool is_alike(const struct place_job *job, unsigned task, unsigned other)
{
    bool is_same = true;
    for (size_t at = 0; at < job->n_bytes; at += strlen(job->labels + at + 1) + 2) {
        const uint8_t tasks = (uint8_t)job->labels[at];
        is_same = is_same && (tasks >> task & 1) == (tasks >> other & 1);
    }
    return is_same;
}

/* How many nodes may be ordered for the task, with those that are there. */
static uint32_t wanted(const struct place_job *job, unsigned task)
{
    const uint32_t held = job->held[task];
    const uint32_t least = job->hides || held > job->min[task] ? held : job->min[task];
    return !job_is_active(job) ? 0 : task == TASK_WORKER ? least + job->may_add : least;
}

size_t placement_demand(const struct placement *p, size_t at,
                        struct placement_demand ret[PLACEMENT_TASKS])
{
    const struct place_job *job = p->jobs[at];
    size_t n = 0;
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        const uint32_t most = wanted(job, task);
        if (!job_is_active(job) || job->max[task] == 0) {
            continue;
        }
        size_t i = 0;
        while (i < n && !is_alike(job, task, (unsigned)__builtin_ctz(ret[i].tasks))) {
            i++;
        }
        if (i == n) {
            ret[n++] = (struct placement_demand){.job = job->name.text, .priority = job->priority};
        }
        ret[i].tasks |= (uint8_t)(1u << task);
        ret[i].min += job->min[task] < most ? job->min[task] : most;
        ret[i].max += most;
        ret[i].held += job->held[task];
    }
    return n;
}

bool placement_supply(const struct placement *p, uint32_t class, struct placement_supply *ret)
{
    const struct place_class *c = &p->classes[class];
    if (!c->labels) {
        return false;
    }
    *ret = (struct placement_supply){.labels = c->labels,
                                     .n_bytes = c->n_bytes,
                                     .came = c->n_came,
                                     .here = c->n_here,
                                     .idle = c->n_free,
                                     .idle_since = c->idle_since};
    for (size_t i = 0; i < p->n_jobs && !ret->is_wanted; i++) {
        const struct place_job *job = p->jobs[i];
        for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
            ret->is_wanted = ret->is_wanted || (job->held[task] < wanted(job, task) &&
                                                (job->kinds[class] >> task & 1));
        }
    }
    return true;
}
