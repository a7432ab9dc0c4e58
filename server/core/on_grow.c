/* server/core/on_grow.c: an operator adds the waiting nodes to a running job, whatever work that
 * loses, and also if the job does not grow by itself. */
#include "server/core/job.h"
#include "server/core/on.h"

int on_grow(struct job *job)
{
    int rc = plan_order_growth(job);
    if (rc == 0) {
        job_touch(job);
    }
    return rc;
}
