/* server/ctl/git.h: runs git for tfe-ctl. */
#ifndef TFE_SERVER_CTL_GIT_H
#define TFE_SERVER_CTL_GIT_H

#include <stddef.h>

#include "common/base/error.h"
#include "common/text/git_url.h"
#include "common/text/reason.h"

/* Runs git with these words (NULL-terminated) on a local directory. git prompts for nothing and
 * runs no program that the directory's configuration names. *ret is its output, NUL-terminated, to
 * be freed by the caller. Returns 0; TFE_ESYS if git is missing or fails (*reason is its last
 * line); TFE_ENOMEM. */
int git_run(const char *const *words, char **ret, size_t *ret_n,
            struct tfe_reason *reason) TFE_MUST_CHECK;

/* Resolves ref ("" for the repository's HEAD) to a commit id. A complete id is returned as it is,
 * without asking the repository. Returns 0, TFE_EINVAL if there is no such ref, or the errors of
 * git_run(). */
int git_resolve(const char *url, const char *ref, char ret[GIT_COMMIT_MAX + 1],
                struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
