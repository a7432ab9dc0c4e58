/* agent/os/private_dir.h: the agent's private directory, and removal of the
 * directories of dead agents. */
#ifndef TFE_AGENT_OS_PRIVATE_DIR_H
#define TFE_AGENT_OS_PRIVATE_DIR_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/text/reason.h"

/* Entries of the directory. Any other entry prevents its removal. */
#define PRIVATE_DIR_SOCKET "agent"
#define PRIVATE_DIR_PREEMPT "preempt"
#define PRIVATE_DIR_SCRIPT "script-"      /* followed by a process id */
#define PRIVATE_DIR_SERVER "server"       /* subdirectory with the files of a private server */
#define PRIVATE_DIR_TMP "tmp"             /* subdirectory that trainers use as $TMPDIR */
#define PRIVATE_DIR_ARTIFACTS "artifacts" /* subdirectory that is $TFE_ARTIFACTS */
/* file in $TFE_ARTIFACTS: its files could not be stored, so they stay for PRIVATE_DIR_KEPT_S */
#define PRIVATE_DIR_NOT_STORED ".not-stored"
#define PRIVATE_DIR_KEPT_S (7 * 86400)
/* followed by a number: temporary files of trainers that have ended */
#define PRIVATE_DIR_GONE "gone-"

/* Maximum length of the path. With "/script-" and a pid it must fit into a socket address of
 * 108 bytes (unix(7)). */
#define PRIVATE_DIR_MAX 88

/* A private directory. Its descriptor stays open and locked (flock) while the agent lives, which
 * tells other agents and systemd-tmpfiles that the directory is in use. */
struct private_dir {
    int fd; /* -1 if there is no directory */
    char path[PRIVATE_DIR_MAX + 1];
};

/* Returns the directories for files of agents, for i from 0: /tmp, and $XDG_RUNTIME_DIR if it is
 * set. The latter comes second, because it is removed when the user logs out, and agents may run
 * under nohup. Returns NULL after the last one. */
const char *private_dir_base(int i);

/* Creates the directory with mode 0700 in base (an absolute path); if base is NULL, in the first
 * private_dir_base where that is possible. Also removes up to 4,096 entries of directories of dead
 * agents of this user from there. Returns TFE_ESYS or TFE_ETOOBIG with reason set and ret->fd -1.
 */
int private_dir_new(const char *base, struct private_dir *ret,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

/* Removes directories of this user's dead agents from each private_dir_base. */
void private_dir_clean_up(void);

/* Returns true if the directory `name` in `dir` (an agent's private directory; "." for `dir`
 * itself) has artifacts that must stay. */
bool private_dir_keeps_artifacts(int dir, const char *name);

/* Removes files whose names begin with prefix, among the first 4,096 entries: trainers can create
 * any number. Does nothing without a directory. */
void private_dir_clear(const struct private_dir *dir, const char *prefix);

/* Removes the directory and the known entries in it, except artifacts that were not stored. Does
 * nothing if fd is -1. */
void private_dir_done(struct private_dir *dir);

/* Removes the directory of another process of this user, as private_dir_done does. Returns
 * true if it does not exist afterwards, false if its lock is held or a process has just
 * created a file in it. */
bool private_dir_remove(const char *path);

#endif
