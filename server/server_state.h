/* server/server_state.h: the server's state directory, its lock and its endpoint file. */
#ifndef TFE_SERVER_SERVER_STATE_H
#define TFE_SERVER_SERVER_STATE_H

#include <limits.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/channel/endpoint.h"
#include "common/text/reason.h"
#include "server/sandbox/drop_privileges.h"

struct state {
    char dir[PATH_MAX];               /* absolute path, as is backup_dir */
    char backup_dir[PATH_MAX];        /* leaves capacity for '/' and a name of TFE_ID_MAX bytes */
    char bundle_dir[PATH_MAX];        /* created when it is first used */
    int lock_fd;                      /* -1 if the lock is not held */
    char endpoint[ENDPOINT_TEXT_MAX]; /* content of the endpoint file that this process wrote; "" if
                                         none */
};

/* Finds the directory (state_dir_find()) and creates it with mode 0700 for this owner if it is
 * missing. Returns 0, TFE_ESYS, TFE_ETOOBIG or TFE_ENOENT. */
int state_make(struct state *ret, const char *chosen, const struct privileges *owner,
               struct tfe_reason *reason) TFE_MUST_CHECK;

/* Locks the directory, as its owner, and writes the pid to the lock file. Backups go to `backups`,
 * which is created if missing, or, if it is NULL or empty, to a subdirectory that the first backup
 * creates. Returns 0; TFE_EAUTH if another user owns a directory or others may read or write it;
 * TFE_EEXIST if another process holds the lock (*reason names it); TFE_ESYS; TFE_ETOOBIG. */
int state_open(struct state *state, const char *backups, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Writes the endpoint file, by which agents and tfe-ctl on this machine find a server bound to
 * `bind` and port. Returns 0, TFE_ESYS or TFE_ETOOBIG. */
int state_write_endpoint(struct state *state, const char *bind, uint16_t port,
                         struct tfe_reason *reason) TFE_MUST_CHECK;

/* Removes the endpoint file if this process wrote it, and releases the lock. */
void state_close(struct state *state);

#endif
