/* server/sandbox/drop_privileges.h: the user that tfe-rdzv or tfe-web becomes, if root starts it.
 */
#ifndef TFE_SERVER_SANDBOX_DROP_PRIVILEGES_H
#define TFE_SERVER_SANDBOX_DROP_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/base/reason.h"

struct rights {
    bool changes;
    uid_t uid; /* of whom the server is to be; else its own */
    gid_t gid;
    bool stays_root; /* and nobody asked for it */
};

/* user is that of --user; NULL or "": fallback, if root starts the program and there is such a
 * user, else it stays who it is. TFE_EINVAL: there is no such user, or we may not become it. */
int rights_find(const char *user, const char *fallback, struct rights *ret,
                struct tfe_reason *reason) TFE_MUST_CHECK;

/* Becomes that user for good, with no other group than its own, in the folder "/". Drops all
 * capabilities, also if the user does not change. TFE_ESYS. */
int rights_become(const struct rights *rights, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
