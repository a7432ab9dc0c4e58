/* server/ctl/snapshot.h: the answer to STATUS, kept until it is complete. */
#ifndef TFE_SERVER_CTL_SNAPSHOT_H
#define TFE_SERVER_CTL_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/msg.h"

/* Strings and pids in these are the snapshot's own. */
struct snapshot_job {
    struct msg_status_job job;
    size_t first_node; /* its nodes are nodes[first_node] … nodes[first_node + n_nodes - 1] */
    size_t n_nodes;
};

struct snapshot {
    struct snapshot_job *jobs;
    size_t n_jobs;
    size_t jobs_cap;
    struct msg_status_node *nodes;
    size_t n_nodes;
    size_t nodes_cap;
};

/* TFE_ENOMEM. */
int snapshot_add_job(struct snapshot *s, const struct msg_status_job *job) TFE_MUST_CHECK;

/* A node of the job added last. TFE_ESTATE: there is no job yet. TFE_ENOMEM. */
int snapshot_add_node(struct snapshot *s, const struct msg_status_node *node) TFE_MUST_CHECK;

/* Empties it; it can be used again. */
void snapshot_done(struct snapshot *s);

#endif
