/* agent/trainer/environment.h: the environment of a trainer: TF_CONFIG, TFE_*, RANK and its
 * relatives. */
#ifndef TFE_AGENT_TRAINER_ENVIRONMENT_H
#define TFE_AGENT_TRAINER_ENVIRONMENT_H

#include <stdint.h>

#include "agent/core/agent.h"

struct trainer_place {
    const struct agent_place *node; /* where the node's first trainer stands */
    uint32_t local_rank;
    uint32_t nproc;
    const char *job;
    const char *node_id;
    const char *socket; /* of the agent, for scripts; NULL: there is none */
    const char *preempt_file;
    const char *tmp_dir; /* NULL: as it is */
};

/* Makes a NULL-terminated environment: base (the agent's own, NULL-terminated) without what begins
 * with TFE_ (so without options and tokens) and without a stale TF_CONFIG, plus TF_CONFIG,
 * TF_GRPC_REUSE_PORT=true, TFE_JOB TFE_RUN TFE_EPOCH TFE_RANK TFE_WORLD_SIZE TFE_LOCAL_RANK
 * TFE_NODE TFE_RESTART_COUNT TFE_ROLE TFE_ROLE_INDEX, TFE_CLUSTER in a job with roles, TFE_SOCKET
 * and TFE_PREEMPT_FILE where there is a channel, RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE
 * NUM_WORKERS, PYTHONUNBUFFERED=1 where not set; and, unless base has them, what JAX, Keras 3 and
 * PyTorch read: JAX_COORDINATOR_ADDRESS JAX_NUM_PROCESSES JAX_PROCESS_ID,
 * KERAS_DISTRIBUTION_JOB_ADDRESSES (_NUM_PROCESSES, _PROCESS_ID), MASTER_ADDR MASTER_PORT. place
 * NULL: only what is the same in every epoch. The caller frees with environment_free. TFE_ENOMEM.
 */
int environment_new(const char *const *base, const struct trainer_place *place,
                    char ***ret) TFE_MUST_CHECK;
void environment_free(char **env);

#endif
