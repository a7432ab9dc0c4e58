/* server/process.c: prepares the process before it handles secrets or sockets. */
#include "server/process.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/cli/secret_mem.h"
#include "common/cli/stdio.h"
#include "common/message/msg.h"

#define AGENTS_LEAST 8

/* Two sessions per possible member (the old and the new one of a reconnecting node). More would
 * only cost memory. */
#define AGENTS_MOST (2 * MSG_NODES_MAX)

int process_prepare(struct tfe_reason *reason)
{
    if (stdio_open_missing(reason) != 0) {
        return TFE_ESYS;
    }
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    /* A file size limit is treated like a full disk; it must not kill the server. */
    if (sigaction(SIGPIPE, &ignore, NULL) != 0 || sigaction(SIGXFSZ, &ignore, NULL) != 0) {
        reason_errno(reason, "ignore SIGPIPE and SIGXFSZ");
        return TFE_ESYS;
    }
    /* RLIMIT_CORE does not apply where core_pattern is a pipe (core(5)), so both are set. */
    struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0) {
        reason_errno(reason, "turn core dumps off");
        return TFE_ESYS;
    }
    return secret_mem_protect_process(reason);
}

int process_raise_files(uint32_t *ret_max_agents, struct tfe_reason *reason)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        reason_errno(reason, "read the limit of open files");
        return TFE_ESYS;
    }
    if (files.rlim_cur < files.rlim_max) {
        struct rlimit raised = {.rlim_cur = files.rlim_max, .rlim_max = files.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
            files = raised;
        }
    }
    if (files.rlim_cur < PROCESS_FILES_RESERVED + AGENTS_LEAST) {
        reason_set(reason, "the limit of open files is %llu, at least %d are needed (ulimit -n)",
                   (unsigned long long)files.rlim_cur, PROCESS_FILES_RESERVED + AGENTS_LEAST);
        return TFE_ESYS;
    }
    rlim_t agents = files.rlim_cur - PROCESS_FILES_RESERVED;
    *ret_max_agents = agents < AGENTS_MOST ? (uint32_t)agents : AGENTS_MOST;
    return 0;
}
