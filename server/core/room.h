/* server/core/room.h: how many jobs and nodes there may be, of one key and in all, and which job
 * gives way. */
#ifndef TFE_SERVER_CORE_ROOM_H
#define TFE_SERVER_CORE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/principal.h"

struct job;
struct rdzv;

/* Whose key opened a job, or joined a node. Written by on_join.c. */
struct holder {
    bool is_known;
    uint8_t key_id[PRINCIPAL_KEY_ID_BYTES];
};

/* Of who speaks in this step. */
struct holder room_holder(const struct rdzv *r);
/* Whether there is no place for one more node of the job (NULL: of a new one); r->sentence says why
 * then, and the job that was idle longest is being forgotten if it is jobs that are too many. */
bool room_is_full(struct rdzv *r, const struct job *job);
/* When an idle job became so, on the civil clock. */
struct tfe_wall room_idle_since(const struct rdzv *r, const struct job *job);

#endif
