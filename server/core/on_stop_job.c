/* server/core/on_stop_job.c: an operator ends a job, in whatever state it is. */
#include "common/base/text.h"
#include "server/core/core.h"
#include "server/core/events.h"

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
    job->stop_began = r->now;
    if (job->state == JOB_RUNNING && job->epoch.n_accounted == 0) {
        /* Their trainers' end is told before FINISH closes the connections. */
        for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
            const struct node *node = job->epoch.seats[seat];
            if (node->session != NO_SESSION) {
                send_to(r, node->session, MSG_STOP)->u.stop.epoch = job->epoch.number;
            }
        }
    }
    job_finish(r, job, JOB_STOPPED);
    job_settle(r, job);
}
