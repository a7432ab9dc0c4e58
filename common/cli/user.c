/* common/cli/user.c: changes the user and drops capabilities. */
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
    if (setuid(0) == 0) { /* verify: a process can retain its rights across a change of user */
        errno = EPERM;
        return TFE_ESYS;
    }
    return secret_mem_protect_process(&reason);
}

int user_drop_capabilities(void)
{
    /* Version 3 has two sets of 32 capabilities; zeroed: no capability. */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3];
    /* Iterates until the kernel does not know the number. Without CAP_SETPCAP the bounding set is
     * unchanged. */
    for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++) {
        (void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
    }
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    /* Skip capset if there are no capabilities: the unit's system call filter may forbid it. */
    if (syscall(SYS_capget, &header, own) == 0 && memcmp(own, none, sizeof(own)) == 0) {
        return 0;
    }
    return syscall(SYS_capset, &header, none) == 0 ? 0 : TFE_ESYS;
}
