/* agent/pool/image.h: builds the container engine's `run` command line for an agent in the image
 * of its job: as the trainers' user from the first process on, without capabilities. */
#ifndef TFE_AGENT_POOL_IMAGE_H
#define TFE_AGENT_POOL_IMAGE_H

#include <jansson.h>
#include <stdbool.h>

#include "agent/agent_settings.h"
#include "agent/pool/handover.h"

struct scratch;
struct toolbox;

/* Returns true if the job names an image and this node runs images. Logs an
 * image that is ignored. */
bool image_is_run(const struct agent_settings *settings, const json_t *job);

/* Returns the container's name, by which the engine can remove it. */
const char *image_container(const struct scratch *scratch);

/* Builds the command line of the engine, whose agent gets these options, and completes the
 * handover, whose directory is set. The caller frees *ret with image_argv_free. Precondition:
 * image_is_run. Returns TFE_EINVAL or TFE_ENOMEM with reason. */
int image_enter(const struct agent_settings *settings, const json_t *job,
                const struct scratch *scratch, const struct toolbox *toolbox, char *const *options,
                struct handover *handover, char ***ret, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Frees a command line. Accepts NULL. */
void image_argv_free(char **argv);

#endif
