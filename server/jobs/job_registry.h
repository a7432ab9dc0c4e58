/* server/jobs/job_registry.h: the registry of jobs, one per name.
 *
 *   pool.h: submitted jobs            ──┐
 *                                       ├──► one STATUS_JOB each, for every query about jobs
 *   core: jobs that agents have joined──┘
 *
 * A job exists from the moment its SUBMIT is durable, or its first JOIN is accepted, until it is
 * forgotten. A job that agents opened by hand is one whose nodes bring themselves. */
#ifndef TFE_SERVER_JOBS_JOB_REGISTRY_H
#define TFE_SERVER_JOBS_JOB_REGISTRY_H

#include "server/jobs/pool.h"

struct sessions;

/* Buffers for the texts of a row. */
struct registry_texts {
    struct pool_texts pool;
    char waits[MSG_SENTENCE_MAX];
    char reason[MSG_SENTENCE_MAX];
};

/* Finds the job of this name. Texts of *ret are valid until the next step of the core or the next
 * call of the pool. Returns 0 or TFE_ENOENT. */
int registry_find(const struct sessions *all, const char *name, struct registry_texts *texts,
                  struct msg_status_job *ret) TFE_MUST_CHECK;

/* Finds the job that follows `after` (NULL: the first) in order of names; as registry_find(). */
int registry_next(const struct sessions *all, const char *after, struct registry_texts *texts,
                  struct msg_status_job *ret) TFE_MUST_CHECK;

#endif
