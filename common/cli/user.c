/* common/cli/user.c: see user.h. */
#include "common/cli/user.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cli/secret_mem.h"

int user_become(uid_t uid, gid_t gid, const gid_t *groups, size_t n)
{
    struct tfe_reason reason;
    if (setgroups(n, groups) != 0 || setresgid(gid, gid, gid) != 0 ||
        setresuid(uid, uid, uid) != 0) {
        return TFE_ESYS;
    }
    if (setuid(0) == 0) { /* a process may keep its rights over a change of user */
        errno = EPERM;
        return TFE_ESYS;
    }
    return secret_mem_protect_process(&reason);
}

int user_drop_capabilities(void)
{
    /* The third version takes two sets of 32; zeroed: none. */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3];
    /* As long as the kernel knows the number; without CAP_SETPCAP the set stays as it is. */
    for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++) {
        (void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
    }
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    /* A process without any is not asked to drop them: its unit's filter may refuse that call. */
    if (syscall(SYS_capget, &header, own) == 0 && memcmp(own, none, sizeof(own)) == 0) {
        return 0;
    }
    return syscall(SYS_capset, &header, none) == 0 ? 0 : TFE_ESYS;
}
