/* server/core/room.h: admission: limits on the number of jobs and nodes, per key and in total, and
 * which job is forgotten to make room. */
#ifndef TFE_SERVER_CORE_ROOM_H
#define TFE_SERVER_CORE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

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
struct holder room_holder(const struct rdzv *r);
/* Returns true if no further node of the job (NULL: of a new job) is admitted, and puts the reason
 * into r->sentence. If there are too many jobs, the one that was idle longest is being
 * forgotten. */
bool room_is_full(struct rdzv *r, const struct job *job);
/* Returns since when an idle job has been idle, as wall-clock time. */
struct tfe_wall room_idle_since(const struct rdzv *r, const struct job *job);

#endif
