/* common/cli/secret_mem.c: protects secrets in memory from other processes of the same user. */
#include "common/cli/secret_mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* Sanitizer builds stay dumpable, because their leak checker traces its own process. */
#if defined(__SANITIZE_ADDRESS__)
#define DUMPABLE 1ul
#else
#define DUMPABLE 0ul
#endif

int secret_mem_protect_process(struct tfe_reason *reason)
{
    if (prctl(PR_SET_DUMPABLE, DUMPABLE) != 0) {
        reason_errno(reason, "turn core dumps off");
        return TFE_ESYS;
    }
    return 0;
}

void secret_mem_wipe_text(char *text)
{
    if (text) {
        explicit_bzero(text, strlen(text));
    }
}

void secret_mem_wipe_variable(const char *name)
{
    secret_mem_wipe_text(getenv(name));
    (void)unsetenv(name);
}
