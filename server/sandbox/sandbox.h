/* server/sandbox/sandbox.h: what tfe-rdzv and tfe-web may still ask of the kernel once they have
 * opened what they need. */
#ifndef TFE_SERVER_SANDBOX_SANDBOX_H
#define TFE_SERVER_SANDBOX_SANDBOX_H

#include <stddef.h>

#include "common/base/error.h"
#include "common/base/reason.h"

struct sandbox {
    const char *const *writable; /* directories with all below them, which have to be there */
    size_t n_writable;
    const char *const *readable; /* files, or directories with all below them; absent ones are
                                    passed over */
    size_t n_readable;
};

/* Confines this thread and those that it makes from here on: of the file system only these paths
 * (Landlock), and only the calls that a server makes (seccomp): it runs no program, nothing becomes
 * executable memory, no other process is touched, and sockets are of the network or of this
 * machine. Calls that change the file system are allowed only with a writable directory. Any other
 * call fails with EPERM. Warns if the kernel lacks one of the two. TFE_ESYS: the kernel has it and
 * refused. */
int sandbox_enter(const struct sandbox *sandbox, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
