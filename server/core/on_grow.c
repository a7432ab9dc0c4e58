/* server/core/on_grow.c: an operator has a running job take in who waits for a place, whatever work
 * that costs, and also where it does not grow by itself. */
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
