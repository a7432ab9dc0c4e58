/* agent/git_source.h: the files of --git: a commit of a repository, checked out into a private
 * directory that is removed when the agent ends. All nodes of a job use one commit: the job's first
 * node decides which. */
#ifndef TFE_AGENT_GIT_SOURCE_H
#define TFE_AGENT_GIT_SOURCE_H

#include <stdbool.h>

#include "agent/agent_settings.h"
#include "agent/trainer/command.h"
#include "common/base/error.h"
#include "common/text/reason.h"

struct event_base;
struct git_source;

/* Checks out the REF of settings->git as the trainers' user, and sets the commit in the settings.
 * Waits until git has ended; a termination signal ends this process. Returns TFE_EINVAL if the
 * repository has no such ref or directory, TFE_ESYS if git fails otherwise, each with reason.
 * Borrows settings. */
int git_source_new(struct agent_settings *settings, struct git_source **ret,
                   struct tfe_reason *reason) TFE_MUST_CHECK;
/* Removes the directory, and cancels git if it runs. Accepts NULL. */
void git_source_free(struct git_source *s);

/* Builds the command of settings and operands, whose script and working directory are in the
 * checkout; s NULL: in the agent's working directory. Errors are those of command_new(). The
 * command borrows texts from s. */
int git_source_command(const struct git_source *s, const struct agent_settings *settings,
                       char **operands, int n_operands, struct command *ret,
                       struct tfe_reason *reason) TFE_MUST_CHECK;

/* Checks out the commit with this number (git_commit_number) in place of the present one, and then
 * calls done from the event loop: reason is NULL, or says why that failed. Precondition: no trainer
 * has started, and no earlier call is in progress. */
void git_source_change(struct git_source *s, struct event_base *base, uint64_t commit,
                       void (*done)(void *ctx, const char *reason), void *ctx);

#endif
