/* server/sandbox/drop_privileges.h: the user that tfe-rdzv or tfe-web changes to if root starts
 * it. */
#ifndef TFE_SERVER_SANDBOX_DROP_PRIVILEGES_H
#define TFE_SERVER_SANDBOX_DROP_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/text/reason.h"

struct privileges {
    bool changes;
    uid_t uid; /* user to run as; the current one if unchanged */
    gid_t gid;
    bool stays_root; /* the process runs as root without --user asking for it */
};

/* Determines the user: `user` (the value of --user) or, if NULL or "", `fallback` if root starts
 * the program and that user exists, else the current user. Returns TFE_EINVAL if the user does not
 * exist or the process may not become it. */
int privileges_find(const char *user, const char *fallback, struct privileges *ret,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

/* Changes to that user irreversibly, with its primary group only and "/" as the directory. Drops
 * all capabilities, also if the user does not change. Returns 0 or TFE_ESYS. */
int privileges_drop(const struct privileges *rights, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
