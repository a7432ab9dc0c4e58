/* server/auth/keyring.h: records of tokens: for whom they were made, which nodes used them, and
 * which are revoked. In memory; the caller persists the rows. */
#ifndef TFE_SERVER_AUTH_KEYRING_H
#define TFE_SERVER_AUTH_KEYRING_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/handshake/handshake.h"
#include "common/message/msg.h"
#include "common/message/principal.h"

/* Maximum number of keys that can be made, about 300 bytes each. Loaded keys do not count, so that
 * a server can always restart. */
#define KEYRING_MAX 10000

struct keyring;

/* Makes a keyring that judges clients of `handshake` from now on; both must outlive that. Keys that
 * ended longer than keep_ms ago (0 for never) are removed occasionally. Returns 0 or TFE_ENOMEM. */
int keyring_new(struct handshake_server *handshake, int64_t keep_ms,
                struct keyring **ret) TFE_MUST_CHECK;
/* Frees the keyring. Precondition: no session is left. NULL is allowed. */
void keyring_free(struct keyring *ring);

/* Sets the root keys whose tokens are accepted; tokens of other generations become invalid. */
void keyring_set_roots(struct keyring *ring, const struct token_ring *roots);

/* Sets a callback that runs after any change that may invalidate sessions (keyring_fault). */
void keyring_watch(struct keyring *ring, void (*on_change)(void *ctx), void *ctx);

/* Adds a row from the store or for a token of the state directory; ignores a known key. Returns
 * TFE_ENOMEM, or TFE_EINVAL if the row is invalid. */
int keyring_add(struct keyring *ring, const struct msg_token_row *row) TFE_MUST_CHECK;

/* Receives a quota: the number of pool nodes that all jobs of the scope may have together; 0 for
 * any number. */
typedef void keyring_quota_fn(void *ctx, const char *scope, uint32_t nodes);
/* Calls fn (NULL to stop) for each existing quota, and from then on for each change. The newest
 * token of a scope that has a quota determines it, even if that token is no longer valid. */
void keyring_watch_quotas(struct keyring *ring, keyring_quota_fn *fn, void *ctx);

/* Makes a token. *ret_row, like all rows, is valid until the next keyring_make or keyring_next.
 * Returns TFE_ENOMEM, TFE_EFULL if KEYRING_MAX keys exist, TFE_ETOOBIG if PLACEMENT_QUOTAS_MAX
 * scopes have a quota. */
int keyring_make(struct keyring *ring, const struct msg_token_create *request, struct tfe_wall now,
                 struct token *ret, const struct msg_token_row **ret_row) TFE_MUST_CHECK;

/* Removes a token that was made but not handed out, because its row could not be stored. */
void keyring_discard(struct keyring *ring, const char *key);

/* Revokes the key with this id or label; for an agent's own key also those it was renewed from and
 * to. Returns TFE_ENOENT, TFE_EEXIST if several keys have the label, TFE_ENOMEM, or TFE_EFULL if an
 * unknown id needs a record and there are too many. */
int keyring_revoke(struct keyring *ring, const char *name, struct tfe_wall now,
                   const struct msg_token_row **ret_row) TFE_MUST_CHECK;

/* Marks expired tokens as revoked, so that they stay invalid after a restart even if the clock was
 * set back. Calls keep for each changed row, which the caller stores. */
void keyring_expire(struct keyring *ring, struct tfe_wall now,
                    void (*keep)(void *ctx, const struct msg_token_row *row), void *ctx);

/* Returns why `by` is no longer valid, a sentence for the peer, or NULL if it is valid. Time never
 * goes backwards here: expired keys stay expired if the clock is set back. */
const char *keyring_fault(struct keyring *ring, const struct principal *by, struct tfe_wall now);

/* Counts a node's first use of a token with limited uses; *ret_row is then the row to store, else
 * NULL. Returns a sentence that says why the node may not use it, or NULL if it may. */
const char *keyring_use(struct keyring *ring, const struct principal *by, const char *node,
                        const struct msg_token_row **ret_row);

/* Returns the label of a key, "" if none. Valid as long as its row. */
const char *keyring_label(const struct keyring *ring, const uint8_t id[PRINCIPAL_KEY_ID_BYTES]);

/* Returns the row after this key (NULL for the first), with its state, or NULL at the end. */
const struct msg_token_row *keyring_next(struct keyring *ring, const char *after,
                                         struct tfe_wall now);

#endif
