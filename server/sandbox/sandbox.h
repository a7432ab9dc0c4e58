/* server/sandbox/sandbox.h: restricts tfe-rdzv and tfe-web to the operations that they need after
 * start-up. */
#ifndef TFE_SERVER_SANDBOX_SANDBOX_H
#define TFE_SERVER_SANDBOX_SANDBOX_H

#include <stddef.h>

#include "common/base/error.h"
#include "common/text/reason.h"

struct sandbox {
    const char *const *writable; /* directories writable with all their content, which must exist */
    size_t n_writable;
    const char *const *readable; /* files, or directories with all their content, readable; missing
                                    ones are skipped */
    size_t n_readable;
};

/* Restricts this thread and its later threads: file access to these paths (Landlock) and system
 * calls to those that a server needs (seccomp). The process cannot run programs, make memory
 * executable or affect other processes; sockets are limited to network, Unix and netlink. System
 * calls that change files are allowed only with a writable directory; any other call fails with
 * EPERM. Logs a warning if the kernel lacks Landlock or seccomp. Returns TFE_ESYS if the kernel has
 * them and refuses. */
int sandbox_enter(const struct sandbox *sandbox, struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
