/* agent/trainers/environment.h: the environment of a trainer: TF_CONFIG, TFE_*, RANK and its
 * relatives. */
#ifndef TFE_AGENT_TRAINERS_ENVIRONMENT_H
#define TFE_AGENT_TRAINERS_ENVIRONMENT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/msg.h"
#include "common/net/options.h"

struct trainer_place {
    const char *job;
    const char *node; /* node id */
    uint32_t run;
    uint64_t epoch;
    uint32_t rank; /* of this trainer */
    uint32_t local_rank;
    uint32_t restarts;          /* trainers of this slot started before */
    const struct msg_row *rows; /* the whole table, by rank; n_rows is the world size */
    size_t n_rows;
    uint32_t nproc;
    const char *socket; /* of the agent, for scripts; NULL: there is none */
    const char *preempt_file;
};

/* Makes a NULL-terminated environment: base (the agent's own, NULL-terminated) without the option
 * variables of table (so without tokens), without a stale TF_CONFIG or TFE_*, plus
 * TF_CONFIG, TF_GRPC_REUSE_PORT=true, TFE_JOB TFE_RUN TFE_EPOCH TFE_RANK TFE_WORLD_SIZE
 * TFE_LOCAL_RANK TFE_NODE TFE_RESTART_COUNT, TFE_SOCKET and TFE_PREEMPT_FILE where there is a
 * channel, RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NUM_WORKERS, PYTHONUNBUFFERED=1 where not
 * set. The caller frees with environment_free.
 * TFE_ENOMEM. */
int environment_new(const char *const *base, const struct option_table *table,
                    const struct trainer_place *place, char ***ret) TFE_MUST_CHECK;
/* What of it is the same in every epoch: base without those variables, and PYTHONUNBUFFERED. */
int environment_new_base(const char *const *base, const struct option_table *table,
                         char ***ret) TFE_MUST_CHECK;
void environment_free(char **env);

#endif
