/* common/channel/state_dir.h: where server, agents and ctl of one machine find each other's files.
 */
#ifndef TFE_COMMON_CHANNEL_STATE_DIR_H
#define TFE_COMMON_CHANNEL_STATE_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/channel/token.h"

#define STATE_DIR_KEY "server.key"
#define STATE_DIR_ENDPOINT "endpoint"
#define STATE_DIR_LOCK "lock"
#define STATE_DIR_AGENT_KEY "agent.key"
#define STATE_DIR_AGENT_LOCK "agent.lock"
#define STATE_DIR_STORE "rdzv.db"
#define STATE_DIR_BACKUPS "backups"
#define STATE_DIR_BUNDLES "bundles"

/* The state directory: chosen (--state-dir) if not NULL and not empty, else $TFE_STATE_DIR, else
 * /var/lib/tfe for root, else $XDG_STATE_HOME/tfe, else ~/.local/state/tfe. Not created.
 * TFE_ETOOBIG; TFE_ENOENT: no HOME either. */
int state_dir_find(const char *chosen, char ret[PATH_MAX],
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* As mkdir -p; only the last component is ours alone (0700). TFE_ESYS. */
int state_dir_make(const char *dir, bool *ret_is_new, struct tfe_reason *reason) TFE_MUST_CHECK;

/* dir/name. TFE_ETOOBIG. */
int state_dir_path(char ret[PATH_MAX], const char *dir, const char *name,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Name of the file that holds the token of a role: "agent.token". */
const char *state_dir_token_name(enum principal_role role);

/* Reads a small text file (at most cap - 1 bytes, NUL added, trailing newline cut).
 * TFE_ENOENT: there is none (why is set too). TFE_ESYS: it cannot be read, or is no regular file;
 * never waits for a pipe. TFE_ETOOBIG. */
int state_dir_read(const char *path, char *ret, size_t cap,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* As state_dir_read, for a file that holds a secret. TFE_EAUTH: it belongs to neither this
 * process's user nor root, or others may read or write it; why says what to do. Root may use those
 * of the user that their directory belongs to, and share its own with a group. */
int state_dir_read_secret(const char *path, char *ret, size_t cap,
                          struct tfe_reason *reason) TFE_MUST_CHECK;

/* As state_dir_read_secret, for a file that somebody names: it may be a pipe, which is waited for
 * at most 10 s. */
int state_dir_read_named_secret(const char *path, char *ret, size_t cap,
                                struct tfe_reason *reason) TFE_MUST_CHECK;

/* What state_dir_read_secret asks of a file's owner and mode, and of a directory's. TFE_EAUTH. */
int state_dir_check(const char *path, const struct stat *st,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

/* Writes a file whole or not at all (temporary name, fsync, rename), mode 0600. TFE_ESYS. */
int state_dir_write(const char *path, const void *bytes, size_t n,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
