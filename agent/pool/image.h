/* agent/pool/image.h: the command line that runs an agent in the image of its job: the engine's
 * `run`, as the trainers' user from the first process on, without capabilities. */
#ifndef TFE_AGENT_POOL_IMAGE_H
#define TFE_AGENT_POOL_IMAGE_H

#include <stdbool.h>

#include "agent/agent_settings.h"
#include "agent/pool/agent_args.h"
#include "agent/pool/handover.h"
#include "common/message/msg.h"

struct scratch;
struct toolbox;

/* Whether the job names an image, and this node runs it. One that it leaves out is logged. */
bool image_is_run(const struct agent_settings *settings, const struct msg_spec *spec);

/* The container's name: the engine of settings removes it by that. */
const char *image_container(const struct scratch *scratch);

/* Turns the line of an agent into the engine's, and completes the handover. Precondition:
 * image_is_run. TFE_EINVAL, TFE_ESYS, TFE_ENOMEM with why: the line is as before. */
int image_enter(const struct agent_settings *settings, const struct msg_spec *spec,
                const struct scratch *scratch, const struct toolbox *toolbox,
                struct agent_args *line, struct handover *handover,
                struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
