/* common/net/state_dir.h: where server, agents and ctl of one machine find each other's files. */
#ifndef TFE_COMMON_NET_STATE_DIR_H
#define TFE_COMMON_NET_STATE_DIR_H

#include <limits.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/net/why.h"
#include "common/wire/token.h"

#define STATE_DIR_KEY "server.key"
#define STATE_DIR_ENDPOINT "endpoint"
#define STATE_DIR_LOCK "lock"
#define STATE_DIR_STORE "rdzv.db"

/* The state directory: chosen (--state-dir) if not NULL and not empty, else $TFE_STATE_DIR, else
 * /var/lib/tfe for root, else $XDG_STATE_HOME/tfe, else ~/.local/state/tfe. Not created.
 * TFE_ETOOBIG; TFE_ENOENT: no HOME either. */
int state_dir_find(const char *chosen, char ret[PATH_MAX], struct tfe_why *why) TFE_MUST_CHECK;

/* Name of the file that holds the token of a role: "agent.token". */
const char *state_dir_token_name(enum token_role role);

/* Reads a small text file (at most cap - 1 bytes, NUL added, trailing newline cut).
 * TFE_ENOENT: there is none (why is set too). TFE_ESYS, TFE_ETOOBIG. */
int state_dir_read(const char *path, char *ret, size_t cap, struct tfe_why *why) TFE_MUST_CHECK;

/* Writes a file whole or not at all (temporary name, fsync, rename), mode 0600. TFE_ESYS. */
int state_dir_write(const char *path, const void *bytes, size_t n,
                    struct tfe_why *why) TFE_MUST_CHECK;

#endif
