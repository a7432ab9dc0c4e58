/* agent/os/git_checkout.h: checks out a commit of a git repository in a child process. git gets
 * only what it needs to reach repositories of the environment, prompts for nothing, and runs no
 * hook. */
#ifndef TFE_AGENT_OS_GIT_CHECKOUT_H
#define TFE_AGENT_OS_GIT_CHECKOUT_H

#include "common/base/error.h"
#include "common/text/git_url.h"
#include "common/text/reason.h"

/* Time limit: a large repository over a slow line. */
#define GIT_CHECKOUT_LIMIT_MS 600000
/* The last line of git's output with this prefix names the error; advice may follow it. */
#define GIT_CHECKOUT_ERROR "fatal: "

struct git_checkout {
    const char *url;
    const char *ref; /* branch, tag, or commit of at least GIT_ABBREVIATION_MIN digits */
    /* if not NULL, check out this commit, which must be in the history of the branch ref */
    const char *commit;
};

/* Shorter abbreviations of a commit are taken for the name of a branch or tag. */
#define GIT_ABBREVIATION_MIN 7u

/* Runs git in the working directory, which is empty or holds an earlier checkout of the URL, and
 * exits with its status. Call it as child_process_config.run. */
_Noreturn void git_checkout_run(const struct git_checkout *checkout);

/* Reads the id of the commit that is checked out in the directory. Returns TFE_ESYS with reason. */
int git_checkout_head(const char *directory, char ret[GIT_COMMIT_MAX + 1],
                      struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
