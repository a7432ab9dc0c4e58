/* agent/trainers/image_command.h: the command of a trainer that sees the files of an image: it is
 * looked for in there. */
#ifndef TFE_AGENT_TRAINERS_IMAGE_COMMAND_H
#define TFE_AGENT_TRAINERS_IMAGE_COMMAND_H

#include "agent/trainers/command.h"

/* Borrowed for the call. */
struct image_command {
    char **operands; /* as of command_new, as the four that follow */
    int count;
    const char *python;
    bool module, no_python;
    const char *directory; /* to work in; for the command's life */
    const char *shared;    /* a directory of this machine that must be there, too, as itself */
};

/* As command_new. Precondition: inside_set, and no threads. */
int image_command_new(const struct image_command *wish, struct command *ret,
                      struct tfe_why *why) TFE_MUST_CHECK;

#endif
