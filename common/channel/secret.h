/* common/channel/secret.h: secrets of a process that it is known by before it tells them: by a
 * hash. */
#ifndef TFE_COMMON_CHANNEL_SECRET_H
#define TFE_COMMON_CHANNEL_SECRET_H

#include <stddef.h>

#include "common/base/id.h"

/* 32 random bytes in lower-case hexadecimal. */
#define SECRET_CHARS 64

/* Precondition: sodium_init. */
void secret_make(char ret[SECRET_CHARS + 1]);

/* BLAKE2b of the secret's bytes, n of them (at most 32), in lower-case hexadecimal. person: 16
 * bytes that keep hashes of one use from serving for another, or NULL. TFE_EINVAL: it is no such
 * secret, or NULL. */
int secret_hash(const char *secret, const unsigned char *person, size_t n, struct tfe_id *ret);

#endif
