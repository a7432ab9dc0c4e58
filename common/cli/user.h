/* common/cli/user.h: becoming another user, for good. */
#ifndef TFE_COMMON_CLI_USER_H
#define TFE_COMMON_CLI_USER_H

#include <stddef.h>
#include <sys/types.h>

#include "common/base/error.h"

/* With these groups only, and no way back; nobody but root sees into this process then, until it
 * runs another program (a change of user makes it visible). TFE_ESYS with errno: it may be half
 * changed, and must end. */
int user_become(uid_t uid, gid_t gid, const gid_t *groups, size_t n) TFE_MUST_CHECK;

/* Drops every capability for good, of root's process, too: effective, permitted, inheritable,
 * ambient and, where this process may, the bounding set. TFE_ESYS with errno. */
int user_drop_capabilities(void) TFE_MUST_CHECK;

#endif
