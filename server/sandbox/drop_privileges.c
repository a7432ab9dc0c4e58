/* server/sandbox/drop_privileges.c: changes from root to an unprivileged user. */
#include "server/sandbox/drop_privileges.h"

#include <pwd.h>
#include <unistd.h>

#include "common/cli/log.h"
#include "common/cli/user.h"

int privileges_find(const char *user, const char *fallback, struct privileges *ret,
                    struct tfe_reason *reason)
{
    const bool is_named = user && user[0] != '\0';
    const bool is_root = geteuid() == 0;
    *ret = (struct privileges){.uid = geteuid(), .gid = getegid()};
    if (!is_named && !is_root) {
        return 0;
    }
    const struct passwd *entry = getpwnam(is_named ? user : fallback);
    if (!entry && is_named) {
        reason_set(reason, "--user: there is no user \"%s\" on this machine", user);
        return TFE_EINVAL;
    }
    if (!entry) {
        ret->stays_root = true;
        return 0;
    }
    if (!is_root && entry->pw_uid != geteuid()) {
        reason_set(reason, "--user: only root can become \"%s\"", user);
        return TFE_EINVAL;
    }
    *ret = (struct privileges){
        .changes = entry->pw_uid != geteuid(), .uid = entry->pw_uid, .gid = entry->pw_gid};
    return 0;
}

int privileges_drop(const struct privileges *rights, struct tfe_reason *reason)
{
    if (!rights->changes) {
        if (user_drop_capabilities() != 0) {
            reason_errno(reason, "drop the capabilities");
            return TFE_ESYS;
        }
        return 0;
    }
    if (chdir("/") != 0 || user_become(rights->uid, rights->gid, NULL, 0) != 0 ||
        user_drop_capabilities() != 0) {
        reason_errno(reason, "become uid %u", (unsigned)rights->uid);
        return TFE_ESYS;
    }
    log_info("became_user", LOG_U("uid", rights->uid), LOG_U("gid", rights->gid));
    return 0;
}
