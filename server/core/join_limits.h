/* server/core/join_limits.h: limits on joining: the number of jobs and nodes, per key and in total,
 * and the nodes that were evicted. */
#ifndef TFE_SERVER_CORE_JOIN_LIMITS_H
#define TFE_SERVER_CORE_JOIN_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/base/time.h"
#include "common/message/principal.h"

struct job;
struct rdzv;

/* Key that opened a job or joined a node. Written by on_join.c. */
struct holder {
    bool is_known;
    uint8_t key_id[PRINCIPAL_KEY_ID_BYTES];
};

/* Returns the key of the present event's sender. */
struct holder sender_holder(const struct rdzv *r);
/* Returns true if no further node of the job (NULL: of a new job) is admitted, and puts the reason
 * into r->sentence. If there are too many jobs, the one that was idle longest is being
 * forgotten. */
bool join_limit_is_reached(struct rdzv *r, const struct job *job);
/* Returns since when an idle job has been idle, as wall-clock time. */
struct tfe_wall job_idle_since(const struct rdzv *r, const struct job *job);

/* --- evicted nodes ---------------------------------------------------------------------------- */

/* Maximum number of entries. A node's id belongs to one process, so no other node has it. If the
 * list is full, the oldest entry is dropped, and its node may join again as a newcomer. */
#define EVICTED_MAX 256

struct evicted_node {
    struct tfe_id job;
    struct tfe_id node;
};

struct evicted_list {
    struct evicted_node v[EVICTED_MAX]; /* ring buffer */
    uint64_t n;                         /* number of entries ever added */
};

/* Text of the REFUSED that an evicted node receives. */
extern const char evicted_sentence[];

void evicted_add(struct rdzv *r, const struct tfe_id *job, const struct tfe_id *node);
void evicted_remove(struct rdzv *r, const char *job, const char *node);
bool evicted_has(const struct rdzv *r, const char *job, const char *node);

#endif
