/* server/ctl/git.h: what tfe-ctl asks git. */
#ifndef TFE_SERVER_CTL_GIT_H
#define TFE_SERVER_CTL_GIT_H

#include <stddef.h>

#include "common/base/error.h"
#include "common/base/reason.h"

/* Characters of a commit's name: SHA-1, or SHA-256 of newer repositories. */
#define GIT_COMMIT_HEX 40u
#define GIT_COMMIT_HEX_MAX 64u

/* Runs it with these words (NULL ends them) on a local directory; it asks nobody for a password,
 * and runs no program that the directory's configuration names. *ret is what it prints, with a NUL
 * behind it, the caller's to free. TFE_ESYS: it is not there, or fails: why is its own last line
 * then. TFE_ENOMEM. */
int git_run(const char *const *words, char **ret, size_t *ret_n,
            struct tfe_reason *reason) TFE_MUST_CHECK;

/* The commit that ref ("": the repository's HEAD) is now; a whole commit's name is taken as it is,
 * and nobody is asked. TFE_EINVAL: there is no such ref; as git_run. */
int git_resolve(const char *url, const char *ref, char ret[GIT_COMMIT_HEX_MAX + 1],
                struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
