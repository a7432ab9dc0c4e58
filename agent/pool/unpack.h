/* agent/pool/unpack.h: a bundle's files, in the directory of the job. */
#ifndef TFE_AGENT_POOL_UNPACK_H
#define TFE_AGENT_POOL_UNPACK_H

#include "common/base/error.h"
#include "common/base/reason.h"

/* Unpacks the bundle that fd is open on (from its beginning) into the working directory, which is
 * empty and nobody else's. TFE_EPROTO: it is not the one that its digest says, or not of the form
 * that a bundle has; TFE_ETOOBIG; TFE_ESYS; TFE_ENOMEM: with why, and some of it may be there. */
int unpack(int fd, const char *digest, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
