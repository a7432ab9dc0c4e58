/* common/message/msg_pool.h: messages of the node pool and of submitted jobs; the conventions of
 * msg.h apply. Pure. */
#ifndef TFE_COMMON_MESSAGE_MSG_POOL_H
#define TFE_COMMON_MESSAGE_MSG_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/machine_info.h"
#include "common/message/msg_enums.h"
#include "common/message/submission.h"

/* POOL: first message of a node that has no job of its own and waits for one. Idempotent by node
 * id. Answered by WELCOME, whose run has no meaning; RENEW and MACHINE_INFO follow, as after a
 * JOIN. */
struct msg_pool {
    const char *const *labels; /* node labels, each K=V */
    size_t n_labels;
    uint32_t slot;         /* number of this agent among several on one machine, from 0 */
    uint64_t assignment;   /* assignment that the node still works for; 0 if none runs and none has
                              left processes or files */
    uint32_t idle_exit_ms; /* the node leaves after this time without a job; 0 for never */
    uint32_t floor; /* the node does not leave on idle_exit_ms if the pool would have fewer nodes
                       than this */
    const char *node_name;
    const char *host;        /* host of the node; NULL if unknown */
    const char *node;        /* node id, as in JOIN */
    const char *node_secret; /* secret whose hash is the node id, as in JOIN */
};

/* FREED: no process or file of the assignment is left on this node. */
struct msg_freed {
    uint64_t assignment;
    uint32_t code;       /* exit status 0..255 of the assignment's agent, or 128 + signal */
    const char *message; /* reason, a sentence; "" if none */
};

/* ASSIGN: the node works for this job from now on as an agent of it. */
struct msg_assign {
    uint64_t assignment; /* assignment number, from 1 and unique */
    const char *spec;    /* the job, in the canonical text of job_file.h */
    bool has_role;       /* the job has several roles and the node takes `role` */
    enum tfe_task role;
    const char *run_key; /* run key that the agent sends in JOIN */
};

/* RELEASE: the node leaves its job in an orderly way and answers FREED. */
struct msg_release {
    uint64_t assignment; /* assignment that ends; 0 if the node has none and leaves the pool */
    uint32_t
        within_ms; /* time after which the agent kills what still runs; 0 for the agent's default */
    const char *message; /* reason, a sentence; "" if none */
    enum tfe_out out;    /* why the node leaves the pool; OUT_NOT if it stays */
    bool over;           /* the job is over: its clean_policy decides about the output files */
};

/* FETCH: asks for bytes of the bundle that the node's assignment names. */
struct msg_fetch {
    const char *digest; /* digest of the bundle, MSG_BUNDLE_HEX characters */
    uint32_t offset;
    uint32_t length;
    const char *error; /* why the last attempt failed, a sentence; NULL on the first attempt */
};

/* CHUNK: bytes of a bundle, or the reason why there are none. */
struct msg_chunk {
    const char *digest;
    uint32_t offset;
    uint32_t total; /* size of the bundle in bytes; 0 if not given */
    const uint8_t *data;
    size_t n_data;
    const char *message; /* error, a sentence; "" if the chunk has bytes */
};

/* BUNDLE_HAVE: a client that submits a job offers its bundle. The server answers DONE if it has the
 * bundle, otherwise BUNDLE_WANTs. */
struct msg_bundle_have {
    const char *digest;
    uint32_t total; /* upper bound of the bundle's size in bytes; the BUNDLE_PUT with is_last may
                       end it earlier */
};

/* BUNDLE_WANT: the client may send the bytes from offset up to until. */
struct msg_bundle_want {
    const char *digest;
    uint32_t offset;
    uint32_t until;
};

struct msg_bundle_put {
    const char *digest;
    uint32_t offset;
    const uint8_t *data;
    size_t n_data;
    bool is_last; /* no bytes follow, even if total is larger */
};

/* SUBMIT: submits a job. The server answers DONE once the job is durable. */
struct msg_submit {
    const char *job;  /* name of the job, the same as in spec */
    const char *spec; /* the job, a job file in JSON */
};

struct msg_condition_row {
    const char *name; /* "Created", or the capitalised name of a job state */
    bool status;
    const char *reason;  /* reason of the condition, one word */
    struct tfe_wall at;  /* when the condition took its status */
    const char *message; /* message of the condition, a sentence */
};

/* POOL_NODES: requests the nodes of the pool. Answered by POOL_ROWs and STATUS_END. */
struct msg_pool_nodes {
    char nothing;
};

struct msg_pool_row {
    const char *node;
    const char *name;   /* label of the node */
    const char *labels; /* labels K=V, separated by commas */
    const char *host;   /* host of the node; NULL if unknown */
    const char
        *state; /* state, one word: "free", "assigned", "leaving", "away", "resting", "warned" */
    struct tfe_wall since;
    uint64_t assignment; /* current assignment; 0 if none */
    const char *job;     /* job of the assignment; "" if none */
    bool has_role;
    enum tfe_task role;
    struct msg_machine_info machine_info;
};

/* DEMAND: requests how many nodes the jobs can use and how many the pool has. Answered by
 * DEMAND_ROWs and STATUS_END. */
struct msg_demand {
    char nothing;
};

/* DEMAND_ROW. With a role: the nodes that jobs want for the role with these labels. Without a role:
 * the pool nodes that carry exactly these labels. */
struct msg_demand_row {
    const char *labels; /* labels K=V, separated by commas; "" if none */
    bool has_role;
    enum tfe_task role;
    uint32_t min_nodes; /* sum of the jobs' minimum node counts */
    uint32_t wanted;    /* number of nodes that the jobs can use now */
    uint32_t assigned;  /* number of the wanted nodes that are assigned */
    uint32_t idle;      /* with a role: idle nodes about to be assigned; without: all idle nodes */
    uint32_t pending;   /* wanted nodes that are neither assigned nor idle */
    uint32_t nodes;     /* without a role: connected nodes */
    struct tfe_wall
        deadline; /* with a role: when the first of its nodes will be preempted; 0 if none */
};

/* SCALE: sets the job's minimum and maximum of workers, overriding what its agents request. */
struct msg_scale {
    const char *job;
    uint32_t min_nodes;
    uint32_t max_nodes;
    uint32_t n_ps; /* number of parameter servers; MSG_UNSET if unchanged */
};

struct msg_suspend {
    const char *job;
};

struct msg_resume {
    const char *job;
};

struct msg_cancel {
    const char *job;
};

/* RERUN: starts the next run of a job that is over. */
struct msg_rerun {
    const char *job;
};

#endif
