/* server/core/on_stop_job.c: an operator ends a job, in whatever state it is. */
#include "common/base/text.h"
#include "server/core/core.h"

void on_stop_job(struct rdzv *r, struct job *job)
{
    if (job_is_over(job) || job->write.is_over) {
        return; /* it has ended, or is about to: so it stays */
    }
    struct text text;
    text_init(&text, job->sentence, sizeof(job->sentence));
    text_add(&text, "job ");
    text_add(&text, job->name.text);
    text_add(&text, " was stopped by an operator");
    send_trace(r, TRACE_JOB_STOPPING, job, NULL, 0, NULL);
    job_finish(r, job, JOB_STOPPED);
    job_settle(r, job);
}
