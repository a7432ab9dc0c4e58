/* server/auth/keys.h: the server's secrets and the token files of the state directory. */
#ifndef TFE_SERVER_AUTH_KEYS_H
#define TFE_SERVER_AUTH_KEYS_H

#include "common/base/error.h"
#include "common/text/reason.h"
#include "server/auth/keyring.h"
#include "server/store/writer.h"

struct keys;

/* Returns the directory in which the service manager provides server.key (systemd's
 * LoadCredential), or NULL if it does not. A provided key is used instead of the state directory's
 * and is never written. */
const char *keys_provided_dir(void);

/* Reads or creates server.key, and checks the token files against it; writes missing ones and
 * replaces those of another key, with a warning. keep_ms as in keyring_new. Precondition:
 * sodium_init was called and the directory is locked. Returns TFE_EINVAL if server.key is damaged
 * or of another version (nothing is written then), TFE_ESYS, TFE_ENOMEM or TFE_ETOOBIG. */
int keys_open(const char *state_dir, int64_t keep_ms, struct keys **ret,
              struct tfe_reason *reason) TFE_MUST_CHECK;

/* Loads the keys from the store. Returns an error of store_read. */
int keys_load(struct keys *keys, struct store *store, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Frees the keys. Precondition: no session is left and the writer has ended. NULL is allowed. */
void keys_free(struct keys *keys);

/* Return borrowed objects, valid as long as keys. */
struct handshake_server *keys_handshake(const struct keys *keys);
struct keyring *keys_ring(const struct keys *keys);

/* Performs a rotation step. fn runs when it is durable and in effect, or with TFE_EINVAL if it is
 * not possible (nothing to do, or server.key is provided). Returns TFE_EEXIST if another rotation
 * is in progress, or TFE_ENOMEM. */
int keys_rotate(struct keys *keys, struct writer *writer, enum tfe_rotation step,
                writer_result_fn fn, void *ctx) TFE_MUST_CHECK;

/* Drops the result callback for ctx; the rotation continues. */
void keys_forget_rotation(struct keys *keys, const void *ctx);

#endif
