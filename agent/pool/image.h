/* agent/pool/image.h: what the container of a job shares with the machine: the job's directory,
 * that of its files and of its checkpoints, and the interpreter's part of the agent. */
#ifndef TFE_AGENT_POOL_IMAGE_H
#define TFE_AGENT_POOL_IMAGE_H

#include <stdbool.h>

#include "agent/pool/container.h"
#include "agent/settings.h"
#include "common/base/msg.h"

/* Whether the job names an image, and this node runs it. One that it leaves out is logged. */
bool image_is_run(const struct agent_settings *settings, const struct msg_spec *spec);

/* Begins its container: wish has all but the engine. Precondition: image_is_run. As
 * container_new. */
int image_open(const struct agent_settings *settings, const struct msg_spec *spec,
               const struct scratch *scratch, const struct container_wish *wish,
               struct container **ret, struct tfe_why *why) TFE_MUST_CHECK;

#endif
