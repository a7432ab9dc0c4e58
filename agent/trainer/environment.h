/* agent/trainer/environment.h: builds the environment of a trainer: TF_CONFIG, TFE_*, RANK and
 * related variables. */
#ifndef TFE_AGENT_TRAINER_ENVIRONMENT_H
#define TFE_AGENT_TRAINER_ENVIRONMENT_H

#include <stdint.h>

#include "agent/core/agent.h"

/* --artifacts */
struct artifacts_settings {
    const char *uri;     /* NULL if no artifacts are stored */
    const char *command; /* copies the directory instead of the bootstrap; NULL for none */
    uint32_t timeout_ms; /* time limit of all attempts together */
};

struct trainer_place {
    const struct agent_place *node; /* position of the node's trainers */
    uint32_t local_rank;
    uint32_t nproc;
    const char *job;
    const char *node_id;
    const char *socket; /* path of the script channel's socket, or NULL without a channel */
    const char *preempt_file;
    const char *tmp_dir;       /* value of TMPDIR, or NULL to keep the inherited one */
    const char *artifacts_dir; /* directory for artifacts, or NULL if none are stored */
    const struct artifacts_settings *artifacts;
};

/* Builds a NULL-terminated environment from base, the agent's own (NULL-terminated). Removes
 * TFE_* (options and tokens) and an old TF_CONFIG. Adds TF_CONFIG, TF_GRPC_REUSE_PORT=true,
 * TFE_JOB TFE_RUN TFE_EPOCH TFE_RANK TFE_WORLD_SIZE TFE_LOCAL_RANK TFE_NODE TFE_RESTART_COUNT
 * TFE_ROLE TFE_ROLE_INDEX, TFE_CLUSTER in a job with roles, TFE_SOCKET and TFE_PREEMPT_FILE with
 * a channel, TFE_ARTIFACTS and, on rank 0, TFE_ARTIFACTS_URI _COMMAND _TIMEOUT_MS, RANK LOCAL_RANK
 * WORLD_SIZE LOCAL_WORLD_SIZE NUM_WORKERS, and PYTHONUNBUFFERED=1 if unset; and, unless base has
 * them, the variables that JAX, Keras 3 and PyTorch read: JAX_COORDINATOR_ADDRESS JAX_NUM_PROCESSES
 * JAX_PROCESS_ID, KERAS_DISTRIBUTION_JOB_ADDRESSES
 * (_NUM_PROCESSES, _PROCESS_ID), MASTER_ADDR MASTER_PORT. With place NULL only variables that
 * are the same in every epoch are set. Free it with environment_free. Returns TFE_ENOMEM. */
int environment_new(const char *const *base, const struct trainer_place *place,
                    char ***ret) TFE_MUST_CHECK;
void environment_free(char **env);

#endif
