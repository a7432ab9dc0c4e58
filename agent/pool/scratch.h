/* agent/pool/scratch.h: the place that a job has on a machine of the pool: a working directory of
 * its own, and the end of what it has left behind. */
#ifndef TFE_AGENT_POOL_SCRATCH_H
#define TFE_AGENT_POOL_SCRATCH_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/text/reason.h"

struct scratch;

/* Makes the directory, empty and of the trainers' user, and notes which shared memory there is:
 * with has_neighbours none is cleared away, as it may be that of others like this one on the
 * machine. TFE_ESYS, TFE_ETOOBIG with why; *ret is the caller's. */
int scratch_new(bool has_neighbours, struct scratch **ret,
                struct tfe_reason *reason) TFE_MUST_CHECK;

/* The working directory. */
const char *scratch_path(const struct scratch *s);

/* … and the one above it, which holds all that is of the job. */
const char *scratch_base(const struct scratch *s);

/* Borrowed: for as long as a process has it, nobody takes the directory for a dead agent's. */
int scratch_fd(const struct scratch *s);

/* Removes all that is in the directory, what agents that were killed have left, and the shared
 * memory (POSIX and System V) of the trainers' user that was not there before and that no process
 * has open. For a process of its own: it may take its time, and it becomes the trainers' user. */
void scratch_clear(const struct scratch *s);

/* Removes the directory, and what is in it still. NULL is allowed. */
void scratch_free(struct scratch *s);

#endif
