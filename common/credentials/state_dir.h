/* common/credentials/state_dir.h: the state directory, through which server, agents and tfe-ctl of
 * one machine share files. */
#ifndef TFE_COMMON_CREDENTIALS_STATE_DIR_H
#define TFE_COMMON_CREDENTIALS_STATE_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/handshake/token.h"
#include "common/text/reason.h"

#define STATE_DIR_KEY "server.key"
#define STATE_DIR_ENDPOINT "endpoint"
#define STATE_DIR_LOCK "lock"
#define STATE_DIR_AGENT_KEY "agent.key"
#define STATE_DIR_AGENT_LOCK "agent.lock"
#define STATE_DIR_STORE "rdzv.db"
#define STATE_DIR_BACKUPS "backups"
#define STATE_DIR_BUNDLES "bundles"

/* Finds the state directory: chosen (--state-dir) unless NULL or empty, else $TFE_STATE_DIR, else
 * /var/lib/tfe for root, else $XDG_STATE_HOME/tfe, else ~/.local/state/tfe. Does not create it.
 * Returns TFE_ETOOBIG, or TFE_ENOENT if HOME is not set either. */
int state_dir_find(const char *chosen, char ret[PATH_MAX],
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Creates the directory and its parents; only the last component has mode 0700. Returns 0 or
 * TFE_ESYS. */
int state_dir_make(const char *dir, bool *ret_is_new, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Writes "dir/name". Returns TFE_ETOOBIG if too long, TFE_EINVAL if name is not a valid id. */
int state_dir_path(char ret[PATH_MAX], const char *dir, const char *name,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Returns the name of the file that holds the token of a role, such as "agent.token". */
const char *state_dir_token_name(enum principal_role role);

/* Reads a small text file of at most cap - 1 bytes, adds a NUL and removes a trailing newline.
 * Returns TFE_ENOENT if it does not exist, TFE_ESYS if it cannot be read or is not a regular file
 * (never waits for a pipe), or TFE_ETOOBIG; each with a reason. */
int state_dir_read(const char *path, char *ret, size_t cap,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Reads a file that holds a secret; otherwise as state_dir_read. Returns TFE_EAUTH, with a reason
 * that says what to do, if the file belongs to neither this process's user nor root, or others may
 * read or write it. Root may also read files of the user that owns their directory, and its own
 * files may be readable by a group. */
int state_dir_read_secret(const char *path, char *ret, size_t cap,
                          struct tfe_reason *reason) TFE_MUST_CHECK;

/* Reads a secret from a file named by the user; otherwise as state_dir_read_secret. The file may be
 * a pipe, for which the function waits at most 10 s. */
int state_dir_read_named_secret(const char *path, char *ret, size_t cap,
                                struct tfe_reason *reason) TFE_MUST_CHECK;

/* Checks owner and mode of a file or directory, as state_dir_read_secret does. Returns 0 or
 * TFE_EAUTH. */
int state_dir_check(const char *path, const struct stat *st,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

/* Writes a file atomically (temporary name, fsync, rename) with mode 0600. Returns 0 or
 * TFE_ESYS. */
int state_dir_write(const char *path, const void *bytes, size_t n,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
