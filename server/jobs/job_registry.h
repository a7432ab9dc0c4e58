/* server/jobs/job_registry.h: the jobs that the server knows, one for each name.
 *
 *   pool.h: jobs that were submitted ──┐
 *                                      ├──► one STATUS_JOB each, for every question about jobs
 *   core: jobs that agents joined    ──┘
 *
 * A job exists from the moment its SUBMIT is durable, or its first JOIN is accepted, until it is
 * forgotten. A job that agents opened by hand is one whose nodes bring themselves. */
#ifndef TFE_SERVER_JOBS_JOB_REGISTRY_H
#define TFE_SERVER_JOBS_JOB_REGISTRY_H

#include "server/jobs/pool.h"

struct sessions;

/* What the texts of a row are kept in. */
struct registry_texts {
    struct pool_texts pool;
    char waits[MSG_SENTENCE_MAX];
    char reason[MSG_SENTENCE_MAX];
};

/* The job of this name. TFE_ENOENT. Texts of *ret live until the next step of the core or the next
 * call of the pool. */
int registry_find(const struct sessions *all, const char *name, struct registry_texts *texts,
                  struct msg_status_job *ret) TFE_MUST_CHECK;

/* The job that follows `after` (NULL: the first) by name. TFE_ENOENT: none is left. As above. */
int registry_next(const struct sessions *all, const char *after, struct registry_texts *texts,
                  struct msg_status_job *ret) TFE_MUST_CHECK;

#endif
