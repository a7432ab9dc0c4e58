/* common/cli/user.h: changes the user of the process and drops capabilities, irreversibly. */
#ifndef TFE_COMMON_CLI_USER_H
#define TFE_COMMON_CLI_USER_H

#include <stddef.h>
#include <sys/types.h>

#include "common/base/error.h"

/* Changes user, group and supplementary groups irreversibly. Also protects the process's memory
 * again (secret_mem.h), because a change of user makes it readable. Returns TFE_ESYS with errno
 * set; the process may then be half changed and must exit. */
int user_become(uid_t uid, gid_t gid, const gid_t *groups, size_t n) TFE_MUST_CHECK;

/* Drops every capability irreversibly, also for root: effective, permitted, inheritable, ambient
 * and, if permitted, the bounding set. Returns TFE_ESYS with errno set. */
int user_drop_capabilities(void) TFE_MUST_CHECK;

#endif
