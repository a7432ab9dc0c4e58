/* server/auth/keyring.h: what the server remembers of tokens beyond what proves itself: whom it
 * made them for, how often they were used, which were taken back. In memory; the callers keep the
 * rows.
 */
#ifndef TFE_SERVER_AUTH_KEYRING_H
#define TFE_SERVER_AUTH_KEYRING_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/channel/handshake.h"
#include "common/message/msg.h"
#include "common/message/principal.h"

/* That may be made: some 300 bytes each. Those that are known already are taken in whatever their
 * number is, else a server might not start again. */
#define KEYRING_MAX 10000

struct keyring;

/* Judges whoever shows a token to hello from now on; both outlive their use of each other. Keys
 * that ended longer ago than keep_ms (0: for ever) are forgotten, now and then. TFE_ENOMEM. */
int keyring_new(struct hello_server *hello, int64_t keep_ms, struct keyring **ret) TFE_MUST_CHECK;
/* No session is left. NULL is allowed. */
void keyring_free(struct keyring *ring);

/* Roots that tokens are taken of; what is of another generation ends. */
void keyring_set_roots(struct keyring *ring, const struct token_ring *roots);

/* on_change comes after anything that may end sessions: keyring_fault has something new to say. */
void keyring_listen(struct keyring *ring, void (*on_change)(void *ctx), void *ctx);

/* Takes a row as it was kept, or of a token that the state directory holds; one that is known
 * already stays. TFE_ENOMEM; TFE_EINVAL: it is no key's. */
int keyring_take(struct keyring *ring, const struct msg_token_row *row) TFE_MUST_CHECK;

/* nodes: of the pool, which all jobs of the scope may have together; 0: any number. */
typedef void keyring_quota_fn(void *ctx, const char *scope, uint32_t nodes);
/* fn (NULL: nobody) hears each quota that there is, and from then on each that changes: what the
 * newest token of a scope said that said anything, whether it is good any more or not. */
void keyring_hear_quotas(struct keyring *ring, keyring_quota_fn *fn, void *ctx);

/* Makes a token. *ret_row lives until the next keyring_make or keyring_next, as all rows do.
 * TFE_ENOMEM; TFE_EFULL: KEYRING_MAX are known; TFE_ETOOBIG: PLACEMENT_QUOTAS_MAX scopes have a
 * quota. */
int keyring_make(struct keyring *ring, const struct msg_token_create *wish, struct tfe_wall now,
                 struct token *ret, const struct msg_token_row **ret_row) TFE_MUST_CHECK;

/* The token of this id was made, and nobody has got it: its row could not be kept. */
void keyring_unmake(struct keyring *ring, const char *key);

/* Takes the key of this id or label back; of an agent's own all that it was renewed from and to,
 * too. TFE_ENOENT; TFE_EEXIST: several have this label; TFE_ENOMEM, TFE_EFULL (an id that was not
 * known needs a row). */
int keyring_revoke(struct keyring *ring, const char *name, struct tfe_wall now,
                   const struct msg_token_row **ret_row) TFE_MUST_CHECK;

/* Ends the tokens with rows that have expired, so that they stay expired over a restart, whatever
 * the clock is set to; each row that changes goes to keep, to be written. */
void keyring_expire(struct keyring *ring, struct tfe_wall now,
                    void (*keep)(void *ctx, const struct msg_token_row *row), void *ctx);

/* Why `by` is not good any more, for the peer; NULL: it is. Time never goes back here: what has
 * expired stays so though the clock is set back. */
const char *keyring_fault(struct keyring *ring, const struct principal *by, struct tfe_wall now);

/* node comes in with a token of limited uses: the first time that takes one, and *ret_row is to be
 * kept (else NULL). Why it may not; NULL: it may. */
const char *keyring_use(struct keyring *ring, const struct principal *by, const char *node,
                        const struct msg_token_row **ret_row);

/* What people call this key; "" nothing. Lives as long as its row. */
const char *keyring_label(const struct keyring *ring, const uint8_t id[PRINCIPAL_KEY_ID_BYTES]);

/* The row behind this key (NULL: the first), with its state; NULL: there are no more. */
const struct msg_token_row *keyring_next(struct keyring *ring, const char *after,
                                         struct tfe_wall now);

#endif
