/* server/core/on_resize.c: an operator says how many nodes a job may have, whatever its agents ask
 * for. A running epoch that has more is ended by a plan (plan.c); one that has fewer goes on. */
#include "server/core/job.h"
#include "server/core/on.h"

/* Its scripts know how to read what they have saved with another number, and there are enough
 * nodes. */
static bool can_have_ps(const struct job *job, uint32_t min, uint32_t n_ps)
{
    return job->spec.n_ps > 0 && job->state == JOB_RUNNING && job->told.partitioned &&
           roster_would_do(job, min, n_ps);
}

int on_resize(struct rdzv *r, struct job *job, uint32_t min, uint32_t max, uint32_t n_ps)
{
    struct job_spec spec = job->spec;
    bool was_resized = job->is_resized;
    if (job_is_over(job) || job->write.is_over || job->write.is_gone) {
        return TFE_ESTATE;
    }
    spec.min_nodes = min;
    spec.max_nodes = max;
    if (!job_spec_is_sound(&spec)) {
        return TFE_EINVAL;
    }
    if (n_ps != MSG_UNSET && n_ps != spec.n_ps) {
        if (n_ps == 0 || n_ps > MSG_NODES_MAX || !can_have_ps(job, min, n_ps)) {
            return TFE_EAUTH;
        }
        spec.n_ps = n_ps;
    }
    job->is_resized = true; /* room for more than max, which the running epoch may have */
    if (job_reserve(r, job, (size_t)job->n_nodes + 1, &spec)) {
        job->is_resized = was_resized;
        return TFE_ENOMEM;
    }
    job->spec = spec;
    send_trace(r, TRACE_JOB_RESIZED, job, NULL, max, NULL);
    if (write_is_kept(job)) {
        write_in_turn(r, job); /* so that a server that is started again goes on with it */
    }
    job_touch(job);
    return 0;
}
