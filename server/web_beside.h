/* server/web_beside.h: --web: a tfe-web beside the server, which never speaks HTTP itself. A keeper
 * (keeper.h) starts it when the server listens, starts it again when it has ended, and ends it when
 * the server is gone. */
#ifndef TFE_SERVER_WEB_BESIDE_H
#define TFE_SERVER_WEB_BESIDE_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/net/log.h"
#include "common/net/why.h"

/* Starts the keeper, which waits; *ret as keeper_start's. state_dir: where tfe-web finds the
 * server's endpoint and an observer's token. TFE_ESYS. */
int web_beside_start(int *ret, uint32_t port, const char *state_dir, enum log_level level,
                     enum log_format format, struct tfe_why *why) TFE_MUST_CHECK;

/* The endpoint file is written: tfe-web may start. fd -1: there is none. */
void web_beside_begin(int fd);

#endif
