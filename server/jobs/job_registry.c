/* server/jobs/job_registry.c: the registry of jobs, one per name. */
#include "server/jobs/job_registry.h"

#include <string.h>

#include "server/core/rdzv.h"
#include "server/events/agent_reports.h"
#include "server/session.h"

int registry_find(const struct sessions *all, const char *name, struct registry_texts *texts,
                  struct msg_status_job *ret)
{
    const bool is_in_core = rdzv_find_job(all->rdzv, name, ret) == 0;
    if (is_in_core) {
        rdzv_view_waits(all->rdzv, ret, texts->waits);
        reports_show_job(all->reports, ret);
        rdzv_view_reason(all->rdzv, ret, texts->reason);
    }
    const bool is_submitted = pool_show_job(all->pool, name, is_in_core, &texts->pool, ret);
    return is_in_core || is_submitted ? 0 : TFE_ENOENT;
}

int registry_next(const struct sessions *all, const char *after, struct registry_texts *texts,
                  struct msg_status_job *ret)
{
    struct tfe_id name;
    const char *pooled = pool_next_job(all->pool, after);
    const bool is_in_core = rdzv_view_job(all->rdzv, after, ret) == 0;
    if (!is_in_core && !pooled) {
        return TFE_ENOENT;
    }
    const bool is_pooled = pooled && (!is_in_core || strcmp(pooled, ret->job) < 0);
    (void)id_set(&name, is_pooled ? pooled : ret->job); /* both names are valid ids */
    return registry_find(all, name.text, texts, ret);
}
