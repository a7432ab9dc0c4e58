/* server/core/on_resize.c: an operator sets the number of nodes of a job, overriding its agents'
 * options. A running epoch that has more is ended by a planned switch (plan.c); one that has fewer
 * goes on. */
#include "common/base/text.h"
#include "server/core/job.h"
#include "server/core/on.h"
#include "server/core/states.h"

/* Returns true if the script can read its checkpoints with another number of ps and there are
 * enough nodes. If not, the reason is in r->sentence. */
static bool can_have_ps(struct rdzv *r, const struct job *job, uint32_t min, uint32_t n_ps)
{
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    text_addf(&text, "job \"%s\" cannot have %u ps now: ", job->name.text, n_ps);
    if (job->spec.n_ps == 0) {
        text_add(&text, "it was opened without any (--ps)");
    } else if (n_ps == 0 || n_ps > MSG_NODES_MAX) {
        text_addf(&text, "a job that has ps has from 1 to %u", MSG_NODES_MAX);
    } else if (job->state != JOB_RUNNING) {
        text_addf(&text, "it is %s, and their number changes at a checkpoint of a running epoch",
                  job_state_name(job->state));
    } else if (!job->told.partitioned) {
        text_add(&text, "its script has no partitioner (tfe.strategy(partitioner=...)) that would "
                        "make its checkpoints fit, or has not come to it yet");
    } else if (!roster_would_do(job, min, n_ps)) {
        text_addf(&text, "of the nodes that are here too few may be ps, beside%s %u worker%s",
                  job->spec.chief ? " a chief and" : "", min, min == 1 ? "" : "s");
    } else {
        return true;
    }
    return false;
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
    bool has_other_ps = n_ps != MSG_UNSET && n_ps != spec.n_ps;
    if (has_other_ps) {
        if (!can_have_ps(r, job, min, n_ps)) {
            return TFE_EAUTH;
        }
        spec.n_ps = n_ps;
    }
    job->is_resized = true; /* the running epoch may have more nodes than the new max */
    if (job_reserve(r, job, (size_t)job->n_nodes + 1, &spec)) {
        job->is_resized = was_resized;
        return TFE_ENOMEM;
    }
    job->spec = spec;
    job->is_ps_resized = job->is_ps_resized || has_other_ps;
    send_trace(r, TRACE_JOB_RESIZED, job, NULL, max, NULL);
    if (write_is_kept(job)) {
        write_in_turn(r, job); /* a restarted server keeps the new sizes */
    }
    job_touch(job);
    return 0;
}
