/* server/sandbox.h: what the server may still ask of the kernel once its directories are there. */
#ifndef TFE_SERVER_SANDBOX_H
#define TFE_SERVER_SANDBOX_H

#include <stddef.h>

#include "common/base/error.h"
#include "common/net/why.h"

/* From here on, for this thread and those that it makes: of the file system only what lies in the n
 * folders (Landlock), and only the calls that a server makes (seccomp): no program is run, nothing
 * becomes executable memory, no other process is touched, and sockets are of the network or of this
 * machine. Any other call fails with EPERM. A kernel that has one of the two not is warned of.
 * TFE_ESYS: it has, but would not. */
int sandbox_enter(const char *const *folders, size_t n, struct tfe_why *why) TFE_MUST_CHECK;

#endif
