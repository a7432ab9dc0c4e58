/* agent/pool/offer.h: gives the bundle of this node's job to other nodes of it: by the protocol's
 * own channel, to who shows a token that was made for this alone. */
#ifndef TFE_AGENT_POOL_OFFER_H
#define TFE_AGENT_POOL_OFFER_H

#include <stdint.h>

#include "common/base/error.h"

struct event_base;
struct offer;

/* Listens on a free port. fd is open on the bundle, of n bytes; digest and fd are borrowed.
 * TFE_ESYS, TFE_ENOMEM. */
int offer_new(struct event_base *base, int fd, uint32_t n, const char *digest,
              struct offer **ret) TFE_MUST_CHECK;
/* Ends what is under way. NULL is allowed. */
void offer_free(struct offer *o);

uint16_t offer_port(const struct offer *o);
/* The token's text. */
const char *offer_token(const struct offer *o);

#endif
