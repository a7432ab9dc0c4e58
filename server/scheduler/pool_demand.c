/* server/scheduler/pool_demand.c: demand of the jobs and supply of the pool, for programs that
 * start machines. */
#include <string.h>

#include "server/scheduler/part.h"

const char *placement_label(const struct placement *p, size_t at, enum tfe_task task,
                            size_t *cursor)
{
    const struct place_job *job = p->jobs[at];
    while (*cursor < job->n_bytes) {
        const char *label = job->labels + *cursor;
        *cursor += strlen(label + 1) + 2;
        if ((uint8_t)label[0] >> task & 1) {
            return label + 1;
        }
    }
    return NULL;
}

bool placement_may_have(const struct placement *p, size_t at, enum tfe_task task, uint32_t class)
{
    return p->jobs[at]->kinds[class] >> task & 1;
}

size_t placement_demand(const struct placement *p, size_t at,
                        struct placement_demand ret[PLACEMENT_TASKS])
{
    const struct place_job *job = p->jobs[at];
    size_t n = 0;
    for (unsigned task = 0; task < PLACEMENT_TASKS && job_is_active(job); task++) {
        const uint32_t held = job->held[task];
        uint32_t max = job->hides || held > job->min[task] ? held : job->min[task];
        if (task == TASK_WORKER) {
            max += job->may_add;
        }
        if (job->max[task] > 0) {
            ret[n++] = (struct placement_demand){
                .job = job->name.text,
                .task = (enum tfe_task)task,
                .min = job->min[task] < max ? job->min[task] : max,
                .max = max,
                .held = held,
            };
        }
    }
    return n;
}

bool placement_supply(const struct placement *p, uint32_t class, struct placement_supply *ret)
{
    const struct place_class *c = &p->classes[class];
    if (!c->labels) {
        return false;
    }
    *ret = (struct placement_supply){
        .labels = c->labels, .n_bytes = c->n_bytes, .here = c->n_here, .idle = c->n_free};
    return true;
}
