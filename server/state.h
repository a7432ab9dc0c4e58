/* server/state.h: the server's state directory: made, locked for life; and its endpoint file. */
#ifndef TFE_SERVER_STATE_H
#define TFE_SERVER_STATE_H

#include <limits.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/net/why.h"

/* "[", host, "]:65535" and the NUL. */
#define STATE_ENDPOINT_MAX (TFE_HOST_MAX + 10)

struct state {
    char dir[PATH_MAX];                /* absolute */
    int lock_fd;                       /* -1: not held */
    char endpoint[STATE_ENDPOINT_MAX]; /* what we wrote; "" nothing yet */
};

/* Finds (state_dir_find), makes (0700) and locks the directory; the lock file tells our pid.
 * TFE_EEXIST: another process holds the lock, why names it. TFE_ESYS, TFE_ETOOBIG, TFE_ENOENT. */
int state_open(struct state *ret, const char *chosen, struct tfe_why *why) TFE_MUST_CHECK;

/* Writes the endpoint file: how agents and tfe-ctl on this machine reach a server that is bound to
 * `bind` and port. TFE_ESYS, TFE_ETOOBIG. */
int state_write_endpoint(struct state *state, const char *bind, uint16_t port,
                         struct tfe_why *why) TFE_MUST_CHECK;

/* Removes the endpoint file if it still says what we wrote, and gives the lock back. */
void state_close(struct state *state);

/* dir/name. TFE_ETOOBIG. */
int state_path(char ret[PATH_MAX], const char *dir, const char *name,
               struct tfe_why *why) TFE_MUST_CHECK;

/* "HOST:PORT", with brackets around a v6 address. */
void state_format_endpoint(char ret[STATE_ENDPOINT_MAX], const char *host, uint16_t port);

#endif
