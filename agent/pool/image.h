/* agent/pool/image.h: builds the container engine's `run` command line for an agent in the image
 * of its job: as the trainers' user from the first process on, without capabilities. */
#ifndef TFE_AGENT_POOL_IMAGE_H
#define TFE_AGENT_POOL_IMAGE_H

#include <stdbool.h>

#include "agent/agent_settings.h"
#include "agent/pool/agent_args.h"
#include "agent/pool/handover.h"
#include "common/message/msg.h"

struct scratch;
struct toolbox;

/* Returns true if the job names an image and this node runs images. Logs an
 * image that is ignored. */
bool image_is_run(const struct agent_settings *settings, const struct msg_spec *spec);

/* Returns the container's name, by which the engine can remove it. */
const char *image_container(const struct scratch *scratch);

/* Converts an agent's command line to one of the engine and completes the handover.
 * Precondition: image_is_run. Returns TFE_EINVAL, TFE_ESYS or TFE_ENOMEM with reason; the line
 * is then unchanged. */
int image_enter(const struct agent_settings *settings, const struct msg_spec *spec,
                const struct scratch *scratch, const struct toolbox *toolbox,
                struct agent_args *line, struct handover *handover,
                struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
