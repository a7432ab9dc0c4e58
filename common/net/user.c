/* common/net/user.c: see user.h. */
#include "common/net/user.h"

#include <errno.h>
#include <grp.h>
#include <unistd.h>

#include "common/net/hidden.h"

int user_become(uid_t uid, gid_t gid, const gid_t *groups, size_t n)
{
    struct tfe_why why;
    if (setgroups(n, groups) != 0 || setresgid(gid, gid, gid) != 0 ||
        setresuid(uid, uid, uid) != 0) {
        return TFE_ESYS;
    }
    if (setuid(0) == 0) { /* a process may keep its rights over a change of user */
        errno = EPERM;
        return TFE_ESYS;
    }
    return hidden_process(&why);
}
