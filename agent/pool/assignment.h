/* agent/pool/assignment.h: the job of an assignment: where it works, and the settings of the agent
 * that works for it. */
#ifndef TFE_AGENT_POOL_ASSIGNMENT_H
#define TFE_AGENT_POOL_ASSIGNMENT_H

#include <jansson.h>
#include <limits.h>

#include "agent/agent_settings.h"
#include "agent/pool/handover.h"
#include "common/base/error.h"
#include "common/text/reason.h"

/* Determines the job's working directory on this machine. files is the job's own directory with its
 * files, used if the job names no other. has_image is true if the agent runs in a container, which
 * may lack an absolute work_dir of the image here. Returns TFE_EINVAL if the path is too long. */
int assignment_directory(const json_t *job, const char *files, bool has_image, char ret[PATH_MAX],
                         struct tfe_reason *reason) TFE_MUST_CHECK;

/* Adds the job of the handover to the settings, which hold the options of the pool node, and sets
 * TFE_SET_NAME for its variables. Sets the NULL-terminated operands of the agent, its command. The
 * caller owns *ret_job, from which settings and operands borrow texts, and frees operands with
 * free(3). Returns TFE_EINVAL, also if the job sets an option that is the machine's, or
 * TFE_ENOMEM. */
int assignment_apply(const struct handover *handover, struct agent_settings *settings,
                     json_t **ret_job, char ***ret_operands,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
