/* agent/os/private_dir.h: a directory of the agent's own for its lifetime, and the end of
 * those that dead agents left. */
#ifndef TFE_AGENT_OS_PRIVATE_DIR_H
#define TFE_AGENT_OS_PRIVATE_DIR_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/reason.h"

/* What is in there. Anything else keeps the directory from being removed. */
#define PRIVATE_DIR_SOCKET "agent"
#define PRIVATE_DIR_PREEMPT "preempt"
#define PRIVATE_DIR_SCRIPT "script-" /* and a process id */
#define PRIVATE_DIR_SERVER "server"  /* a directory, with files of a private server */
#define PRIVATE_DIR_TMP "tmp"        /* a directory, with what trainers leave in $TMPDIR */
#define PRIVATE_DIR_GONE "gone-"     /* … and a number: of trainers that are no more */

/* With "/script-" and a process id behind it, it must fit into a socket's address: 108 bytes
 * (unix(7)). */
#define PRIVATE_DIR_MAX 88

/* Open and locked (flock) for as long as its agent lives: that is how others know, and why
 * systemd-tmpfiles leaves it alone. */
struct private_dir {
    int fd; /* -1: there is none */
    char path[PRIVATE_DIR_MAX + 1];
};

/* Makes it, 0700, in base (an absolute path) or, with base NULL, in /tmp, else in
 * $XDG_RUNTIME_DIR; removes there what dead agents of this user left. TFE_ESYS, TFE_ETOOBIG with
 * why: ret->fd is -1. */
int private_dir_new(const char *base, struct private_dir *ret,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

/* Removes, where private_dir_new(NULL) makes directories, those that dead agents of this user left.
 */
void private_dir_clean_up(void);

/* Removes what has such a name, or one that begins with it. Without a directory nothing. */
void private_dir_clear(const struct private_dir *dir, const char *prefix);

/* Removes it with what is ours in it. Without one (fd -1) nothing. */
void private_dir_done(struct private_dir *dir);

/* Removes the directory of another process of this user's, as private_dir_done does. False:
 * somebody still holds its lock, or has just put something into it. True, too, if there is none. */
bool private_dir_remove(const char *path);

#endif
