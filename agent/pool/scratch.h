/* agent/pool/scratch.h: temporary working directory of a job on a pool machine, and cleanup of
 * everything the job leaves behind. */
#ifndef TFE_AGENT_POOL_SCRATCH_H
#define TFE_AGENT_POOL_SCRATCH_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/text/reason.h"

struct scratch;

/* Creates an empty directory owned by the trainers' user and records the existing shared memory.
 * With has_neighbours shared memory is never removed, because it may belong to another node on
 * the machine. Returns TFE_ESYS or TFE_ETOOBIG with reason; the caller owns *ret. */
int scratch_new(bool has_neighbours, struct scratch **ret,
                struct tfe_reason *reason) TFE_MUST_CHECK;

/* Returns the path of the working directory. */
const char *scratch_path(const struct scratch *s);

/* Returns the path of its parent, which holds all of the job's files. */
const char *scratch_base(const struct scratch *s);

/* Returns a borrowed descriptor. While a process holds it, the directory is
 * not treated as stale. */
int scratch_fd(const struct scratch *s);

/* Removes the contents of the directory except artifacts that were not stored, the directories of
 * killed agents, and shared memory (POSIX and System V) of the trainers' user that is new and not
 * in use. Call it in a separate process: it may take long and switches to the trainers' user. */
void scratch_clear(const struct scratch *s);

/* Removes the directory with its contents. Accepts NULL. */
void scratch_free(struct scratch *s);

#endif
