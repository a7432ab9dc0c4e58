/* server/keys.h: the server's secrets and the first tokens, from and into the state directory. */
#ifndef TFE_SERVER_KEYS_H
#define TFE_SERVER_KEYS_H

#include "common/base/error.h"
#include "common/net/why.h"
#include "common/wire/hello.h"

/* Reads server.key or makes it, checks the token files against it and writes those that are missing
 * or belong to another key (with a warning), and hands the secrets to a hello_server, which the
 * caller frees. Precondition: sodium_init was called, the directory is locked. TFE_EINVAL:
 * server.key is damaged or of another version; nothing was written. TFE_ESYS, TFE_ENOMEM,
 * TFE_ETOOBIG. */
int keys_open(const char *state_dir, struct hello_server **ret, struct tfe_why *why) TFE_MUST_CHECK;

#endif
