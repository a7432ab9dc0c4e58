/* agent/pool/unpack.h: unpacks a bundle into the job's directory. */
#ifndef TFE_AGENT_POOL_UNPACK_H
#define TFE_AGENT_POOL_UNPACK_H

#include "common/base/error.h"
#include "common/text/reason.h"

/* Unpacks the bundle in fd, from its beginning, into the working directory, which must be empty
 * and private. Returns TFE_EPROTO if the bundle is malformed, TFE_ETOOBIG, TFE_ESYS or TFE_ENOMEM,
 * with reason; some files may exist then. */
int unpack(int fd, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
