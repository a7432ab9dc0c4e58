/* common/channel/secret.h: random secrets that are published first by their hash and later
 * disclosed as a proof. */
#ifndef TFE_COMMON_CHANNEL_SECRET_H
#define TFE_COMMON_CHANNEL_SECRET_H

#include <stddef.h>

#include "common/base/id.h"

/* Characters of a secret: 32 random bytes in lower-case hexadecimal. */
#define SECRET_CHARS 64

/* Makes a new secret. Precondition: sodium_init. */
void secret_make(char ret[SECRET_CHARS + 1]);

/* Computes the BLAKE2b hash of n bytes (at most 32) of the secret, in lower-case hexadecimal.
 * person is NULL, or 16 bytes that separate the uses of hashes. Returns TFE_EINVAL if the secret is
 * NULL or malformed. */
int secret_hash(const char *secret, const unsigned char *person, size_t n, struct tfe_id *ret);

#endif
