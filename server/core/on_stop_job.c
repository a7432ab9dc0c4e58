/* server/core/on_stop_job.c: an operator cancels a job, in any state. */
#include "common/base/text.h"
#include "server/core/job.h"
#include "server/core/on.h"
#include "server/core/states.h"

void on_stop_job(struct rdzv *r, struct job *job)
{
    if (job_is_over(job) || job->write.is_over || job->write.is_gone) {
        return; /* the job has ended or is about to, and its result stays */
    }
    send_trace(r, TRACE_JOB_STOPPING, job, NULL, 0, NULL);
    if (job->state == JOB_RUNNING && job->success.is_here && job->spec.linger) {
        success_end_wait(r, job); /* the job has succeeded: end the linger period */
        job_touch(job);
        return;
    }
    if (job->state == JOB_RUNNING && job->epoch.n_accounted == 0) {
        /* STOP lets the trainers' end be reported before FINISH closes the connections. */
        for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
            const struct node *node = job->epoch.seats[seat];
            if (node_is_connected(node)) {
                send_stop(r, node, job->epoch.number);
            }
        }
    }
    text_setf(r->sentence, sizeof(r->sentence), "job %s was cancelled by an operator",
              job->name.text);
    job_finish(r, job, JOB_CANCELLED, r->sentence);
    job_touch(job);
}
