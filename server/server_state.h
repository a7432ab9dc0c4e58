/* server/server_state.h: the server's state directory: made, locked for life; and its endpoint
 * file. */
#ifndef TFE_SERVER_SERVER_STATE_H
#define TFE_SERVER_SERVER_STATE_H

#include <limits.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/channel/endpoint.h"
#include "server/sandbox/drop_privileges.h"

struct state {
    char dir[PATH_MAX];               /* absolute; so is the next */
    char backup_dir[PATH_MAX];        /* room for a '/' and a name of TFE_ID_MAX is left */
    char bundle_dir[PATH_MAX];        /* made when it is needed, too */
    int lock_fd;                      /* -1: not held */
    char endpoint[ENDPOINT_TEXT_MAX]; /* what we wrote; "" nothing yet */
};

/* Finds the directory (state_dir_find), and makes it (0700) for this owner if it is not there.
 * TFE_ESYS, TFE_ETOOBIG, TFE_ENOENT. */
int state_make(struct state *ret, const char *chosen, const struct rights *owner,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* As that owner: locks it; the lock file tells our pid. The directory for copies is backups, made
 * if it is not there, or, if that is NULL or empty, one in it that is made with the first copy.
 * TFE_EAUTH: another user owns one of them, or others may read or write it. TFE_EEXIST: another
 * process holds the lock, why names it. TFE_ESYS, TFE_ETOOBIG. */
int state_open(struct state *state, const char *backups, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Writes the endpoint file: how agents and tfe-ctl on this machine reach a server that is bound to
 * `bind` and port. TFE_ESYS, TFE_ETOOBIG. */
int state_write_endpoint(struct state *state, const char *bind, uint16_t port,
                         struct tfe_reason *reason) TFE_MUST_CHECK;

/* Removes the endpoint file if it still says what we wrote, and gives the lock back. */
void state_close(struct state *state);

#endif
