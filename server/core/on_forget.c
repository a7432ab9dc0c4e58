/* server/core/on_forget.c: forgets idle jobs, by an operator's command or because they are old. */
#include <string.h>

#include "server/core/core.h"
#include "server/core/job.h"
#include "server/core/on.h"
#include "server/core/room.h"

/* Maximum number of jobs forgotten in one step. */
#define FORGET_MAX 32

struct job *on_forget_aside(struct rdzv *r, const char *name)
{
    struct job_spec spec;
    size_t i = 0;
    while (i < r->n_aside && strcmp(r->aside[i].text, name) != 0) {
        i++;
    }
    job_spec_init(&spec);
    struct job *job = i < r->n_aside ? job_new(r, name, &spec, NULL) : NULL;
    if (job) {
        r->aside[i] = r->aside[--r->n_aside];
        job_insert(r, job);
    }
    return job;
}

int on_forget(struct rdzv *r, struct job *job)
{
    if (!job_is_idle(r, job)) {
        return TFE_ESTATE;
    }
    write_gone(r, job);
    return 0;
}

void on_forget_old(struct rdzv *r, struct tfe_wall before)
{
    struct job *job;
    int n = 0;
    RB_FOREACH(job, job_tree, &r->jobs)
    {
        if (n < FORGET_MAX && job_is_idle(r, job) && room_idle_since(r, job).ms < before.ms) {
            write_gone(r, job);
            n++;
        }
    }
}
