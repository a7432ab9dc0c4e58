/* agent/os/trainer_user.h: whom trainers run as, if root's agent has them run as another user:
 * what they may not read or end is then the agent's and the guard's alone. */
#ifndef TFE_AGENT_OS_TRAINER_USER_H
#define TFE_AGENT_OS_TRAINER_USER_H

#include <stddef.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/base/reason.h"

struct trainer_user {
    const char *name; /* NULL: trainers run as the agent's user */
    const char *home;
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    int n_groups;
};

/* For the rest of the process's life, and for the guard that is forked later. TFE_EINVAL with why:
 * there is no such user, it is root, or we are not. */
int trainer_user_set(const char *name, struct tfe_reason *reason) TFE_MUST_CHECK;
const struct trainer_user *trainer_user(void);

/* Something that trainers have to be able to do, as access(2) says it. */
struct trainer_need {
    const char *path; /* NULL: nothing. One that W_OK asks for may still have to be made */
    int mode;
    const char *what; /* "read" */
};

/* Whether a process can become that user and do all this, and we can see into it. TFE_EINVAL with
 * why. Nothing without another user. Before there are threads. */
int trainer_user_try(const struct trainer_need *needs, size_t n,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* Who sends what a trainer sends. */
uid_t trainer_user_uid(void);

/* Lets a socket, a pipe or a directory be that user's: the kernel shares a port among sockets of
 * one user only, and who opens /dev/stdout opens the pipe anew. TFE_ESYS with errno. */
int trainer_user_give(int fd) TFE_MUST_CHECK;

/* Between fork and exec. TFE_ESYS with errno. */
int trainer_user_become(void) TFE_MUST_CHECK;

/* Makes the directory this process's, as that user finds it: no way that is closed to him leads
 * there. Between fork and exec; what is to be sent to this process at its parent's death is set
 * anew afterwards (prctl(2)). TFE_ESYS with errno. */
int trainer_user_enter(const char *directory) TFE_MUST_CHECK;

#endif
