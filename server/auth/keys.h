/* server/auth/keys.h: the server's secrets and the tokens of the state directory, from and into it.
 */
#ifndef TFE_SERVER_AUTH_KEYS_H
#define TFE_SERVER_AUTH_KEYS_H

#include "common/base/error.h"
#include "common/base/reason.h"
#include "server/auth/keyring.h"
#include "server/store/writer.h"

struct keys;

/* The folder in which the service manager lends server.key (systemd's LoadCredential); NULL: it
 * lends none. That one is used then, never written, and none of the state directory is. */
const char *keys_lent_in(void);

/* Reads server.key or makes it, checks the token files against it and writes those that are missing
 * or belong to another key (with a warning). keep_ms: of keyring_new. Precondition: sodium_init was
 * called, the directory is locked. TFE_EINVAL: server.key is damaged or of another version; nothing
 * was written. TFE_ESYS, TFE_ENOMEM, TFE_ETOOBIG. */
int keys_open(const char *state_dir, int64_t keep_ms, struct keys **ret,
              struct tfe_reason *reason) TFE_MUST_CHECK;

/* Takes in what the store keeps of keys. The error of store_read_kept. */
int keys_load(struct keys *keys, struct store *store, struct tfe_reason *reason) TFE_MUST_CHECK;

/* No session is left, and the writer is done. NULL is allowed. */
void keys_free(struct keys *keys);

/* Both are lent, and live as long as keys. */
struct hello_server *keys_hello(const struct keys *keys);
struct keyring *keys_ring(const struct keys *keys);

/* Turns the ring of roots; fn comes once that is on the disk and counts, or why it is not
 * (TFE_EINVAL: there is nothing to turn, or server.key is lent). TFE_EEXIST: another turn is under
 * way. TFE_ENOMEM. */
int keys_rotate(struct keys *keys, struct writer *writer, enum tfe_rotation step,
                writer_answer_fn fn, void *ctx) TFE_MUST_CHECK;

/* The answer for ctx is not wanted any more; it is turned all the same. */
void keys_forget_rotation(struct keys *keys, const void *ctx);

#endif
