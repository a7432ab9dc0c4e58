/* server/core/on_written.c: PERSISTED and PERSIST_FAILED: result of writing a job's record. */
#include "server/core/job.h"
#include "server/core/on.h"

void on_written(struct rdzv *r, struct job *job, const struct rdzv_event *event)
{
    if (event->conflict) {
        send_action(r, RDZV_EXIT)->sentence =
            "another server writes to the same store: this one ends, trainers go on";
    } else if (event->type == RDZV_PERSISTED ? write_take_done(job, event->sequence)
                                             : write_take_failure(r, job, event->sequence)) {
        job_touch(job);
    }
}
