/* common/message/msg_pool.h: the messages of the pool, and of jobs that are handed in; msg.h says
 * what holds for all. Pure. */
#ifndef TFE_COMMON_MESSAGE_MSG_POOL_H
#define TFE_COMMON_MESSAGE_MSG_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/machine_info.h"
#include "common/message/msg_enums.h"
#include "common/message/submission.h"

/* First message of a node that has no job of its own and waits for one. Idempotent by node.
 * Answered by WELCOME, whose run means nothing; RENEW and FACTS follow, as after a JOIN. */
struct msg_pool {
    const char *const *labels; /* K=V */
    size_t n_labels;
    uint32_t slot;         /* of several of one machine, from 0 */
    uint64_t assignment;   /* that it still works for; 0: nothing, and nothing of any is left */
    uint32_t idle_exit_ms; /* it leaves once it has had no job for so long; 0: it does not … */
    uint32_t floor;        /* … nor where the pool would have fewer nodes than that */
    const char *node_name;
    const char *host;        /* NULL: not said */
    const char *node;        /* as in JOIN, … */
    const char *node_secret; /* … and its proof */
};

/* Nothing of that assignment runs, or is left, on this node. */
struct msg_freed {
    uint64_t assignment;
    uint32_t code;    /* how its agent ended: exit status 0..255, or 128 + signal */
    const char *says; /* a sentence; "" none */
};

/* Work for this job: be an agent of it. */
struct msg_assign {
    uint64_t assignment; /* from 1; no two are the same */
    struct msg_spec spec;
    bool has_role; /* the job has several; the node is for this one */
    enum tfe_task role;
    const char *run_key; /* as JOIN tells it */
};

/* Work for it no more: leave the job in an orderly way, and say FREED. */
struct msg_release {
    uint64_t assignment; /* 0: none; it leaves */
    uint32_t within_ms;  /* what still runs then is ended; 0: as the agent thinks fit */
    const char *says;    /* why, a sentence; "" none */
    enum tfe_out out;    /* not OUT_NOT: it leaves the pool then */
    bool over;           /* the job is over: what it has printed goes by its clean_policy */
};

/* Asks for bytes of the bundle that the node's assignment names. */
struct msg_fetch {
    const char *digest; /* MSG_BUNDLE_HEX characters */
    uint32_t offset;
    uint32_t length;
    const char *error; /* why the last attempt failed, a sentence; NULL: this is the first */
};

/* Some of its bytes, or why there are none. */
struct msg_chunk {
    const char *digest;
    uint32_t offset;
    uint32_t total; /* bytes of the bundle; 0: not said */
    const uint8_t *data;
    size_t n_data;
    const char *says; /* the error, a sentence; "": there are bytes */
};

/* Who hands a job in has this bundle for it. DONE: the server has it, too; else BUNDLE_WANTs say
 * what it wants. */
struct msg_bundle_have {
    const char *digest;
    uint32_t total; /* bytes, at most: the PUT that is_last may end it before */
};

/* The bytes from offset on, up to until, may come now. */
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
    bool is_last; /* there are no more, whatever total was said */
};

/* Hands a job in. DONE comes once it is durable. */
struct msg_submit {
    struct msg_spec spec;
};

struct msg_condition_row {
    const char *name; /* "Created", or the name of a job's state, capitalised */
    bool status;
    const char *reason; /* a word */
    struct tfe_wall at; /* it became so */
    const char *says;   /* a sentence */
};

/* Asks for the nodes of the pool. Answered by POOL_ROWs and STATUS_END. */
struct msg_pool_nodes {
    char nothing;
};

struct msg_pool_row {
    const char *node;
    const char *name;   /* label */
    const char *labels; /* with commas */
    const char *host;   /* NULL: not known */
    const char *state;  /* a word: "free", "assigned", "leaving", "away", "resting", "warned" */
    struct tfe_wall since;
    uint64_t assignment; /* 0: none */
    const char *job;     /* "" none */
    bool has_role;
    enum tfe_task role;
    struct msg_facts facts;
};

/* Asks what jobs want of the pool and what it has. Answered by DEMAND_ROWs and STATUS_END. */
struct msg_demand {
    char nothing;
};

/* With a role: the nodes that jobs want for it with these labels. Without: the nodes of the pool
 * that carry exactly these labels. */
struct msg_demand_row {
    const char *labels; /* separated by commas; "" none */
    bool has_role;
    enum tfe_task role;
    uint32_t min_nodes; /* the sum of the jobs' minima */
    uint32_t wanted;    /* all that the jobs may use now */
    uint32_t assigned;  /* of those, the nodes that they have */
    uint32_t idle;      /* with a role: idle nodes that will be assigned; else all idle nodes */
    uint32_t pending;   /* wanted, and neither assigned nor idle */
    uint32_t nodes;     /* without a role: connected nodes */
    struct tfe_wall deadline; /* with a role: the first of its nodes goes then; 0: none does */
};

/* The job has from min to max nodes that work from now on, whatever its agents ask for. */
struct msg_scale {
    const char *job;
    uint32_t min_nodes;
    uint32_t max_nodes;
    uint32_t n_ps; /* MSG_UNSET: as many as now */
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

/* The next run of one that is over. */
struct msg_rerun {
    const char *job;
};

#endif
