/* common/channel/node_id.h: a node's id, the secret that proves it, and its label. */
#ifndef TFE_COMMON_CHANNEL_NODE_ID_H
#define TFE_COMMON_CHANNEL_NODE_ID_H

#include <stdbool.h>

#include "common/base/id.h"
#include "common/message/msg.h"

/* Makes a new node secret: 32 random bytes in lower-case hexadecimal, as JOIN carries it. */
void node_secret_make(char ret[MSG_NODE_SECRET_CHARS + 1]);

/* Computes the id that the secret proves: BLAKE2b-128 of its bytes, in lower-case hexadecimal.
 * Returns TFE_EINVAL if the secret is malformed. */
int node_id_of(const char *secret, struct tfe_id *ret);

/* Sets the node's label: the wanted one, or this machine's host name made an id if wanted is NULL.
 * Precondition: wanted is NULL or a valid id. */
void node_label(const char *wanted, struct tfe_id *ret);

/* True if the secret proves the node id. */
bool node_id_is_proved(const char *id, const char *secret);

#endif
