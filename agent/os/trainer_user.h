/* agent/os/trainer_user.h: runs trainers as another user than root's agent, so that trainers
 * cannot read or kill what belongs to the agent and the guard. */
#ifndef TFE_AGENT_OS_TRAINER_USER_H
#define TFE_AGENT_OS_TRAINER_USER_H

#include <stddef.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/text/reason.h"

struct trainer_user {
    const char *name; /* NULL if trainers run as the agent's user */
    const char *home;
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    int n_groups;
};

/* Sets the user for the lifetime of this process and of a guard forked later. Returns TFE_EINVAL
 * with reason if the user does not exist or is root, or if this process is not root. */
int trainer_user_set(const char *name, struct tfe_reason *reason) TFE_MUST_CHECK;
const struct trainer_user *trainer_user(void);

/* An access right that trainers need, as for access(2). */
struct trainer_need {
    const char *path; /* NULL for none; with W_OK the path may not exist yet */
    int mode;
    const char *what; /* verb for messages, e.g. "read" */
};

/* Checks that a process can become the user and has these rights, and that this process
 * can inspect it. Returns TFE_EINVAL with reason. Does nothing if no user is set.
 * Precondition: no threads. */
int trainer_user_try(const struct trainer_need *needs, size_t n,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* Returns the user id of trainers, which is the sender of their messages. */
uid_t trainer_user_uid(void);

/* Makes the user the owner of a socket, pipe or directory: the kernel shares a port only
 * among sockets of one user, and opening /dev/stdout opens the pipe again. Returns
 * TFE_ESYS with errno set. */
int trainer_user_give(int fd) TFE_MUST_CHECK;

/* Switches to the user between fork and exec. Returns TFE_ESYS with errno set. */
int trainer_user_become(void) TFE_MUST_CHECK;

/* Changes to the directory with the user's rights. Call between fork and exec; it
 * resets PR_SET_PDEATHSIG, which must be set again afterwards (prctl(2)). Returns
 * TFE_ESYS with errno set. */
int trainer_user_enter(const char *directory) TFE_MUST_CHECK;

#endif
