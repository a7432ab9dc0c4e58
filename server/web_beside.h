/* server/web_beside.h: --web: a tfe-web beside the server, which never speaks HTTP itself.
 *
 * The server may run no program once it is in its sandbox, and ends at any moment. So a small
 * process that it leaves behind before that starts tfe-web when the server listens, starts it again
 * when it has ended, and ends it when the server is gone, whatever took that. */
#ifndef TFE_SERVER_WEB_BESIDE_H
#define TFE_SERVER_WEB_BESIDE_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/net/log.h"
#include "common/net/why.h"

struct web_beside {
    int fd; /* to that process; -1: there is none */
};

/* Starts the process, which waits. state_dir: where tfe-web finds the server's endpoint and an
 * observer's token. Before there is a second thread, a secret in memory, or a sandbox. TFE_ESYS. */
int web_beside_start(struct web_beside *ret, uint32_t port, const char *state_dir,
                     enum log_level level, enum log_format format,
                     struct tfe_why *why) TFE_MUST_CHECK;

/* The endpoint file is written: tfe-web may start. */
void web_beside_begin(const struct web_beside *web);

/* Ends tfe-web and waits for that, for a second and a half at most. */
void web_beside_end(struct web_beside *web);

#endif
