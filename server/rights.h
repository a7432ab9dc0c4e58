/* server/rights.h: the user that the server becomes, if root starts it. */
#ifndef TFE_SERVER_RIGHTS_H
#define TFE_SERVER_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/net/why.h"

/* Whom root becomes if nobody is named. */
#define RIGHTS_USER "tfe"

struct rights {
    bool changes;
    uid_t uid; /* of whom the server is to be; else its own */
    gid_t gid;
    bool stays_root; /* and nobody asked for it */
};

/* Of --user: a name, or NULL or "": RIGHTS_USER, if root starts the server and there is such a
 * user; else it stays who it is. TFE_EINVAL: there is no such user, or we may not become it. */
int rights_find(const char *user, struct rights *ret, struct tfe_why *why) TFE_MUST_CHECK;

/* Becomes that user for good, with no other group than its own, in the folder "/". Nothing if it
 * does not change. TFE_ESYS. */
int rights_become(const struct rights *rights, struct tfe_why *why) TFE_MUST_CHECK;

#endif
