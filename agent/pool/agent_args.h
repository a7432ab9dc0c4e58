/* agent/pool/agent_args.h: converts an assignment to the command line and environment of an
 * agent that runs only this job. */
#ifndef TFE_AGENT_POOL_AGENT_ARGS_H
#define TFE_AGENT_POOL_AGENT_ARGS_H

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

/* Input. Pointers are borrowed for the call. */
struct agent_args_options {
    const char *program;            /* path of tfe-agent */
    char *const *options;           /* options of the pool node, NULL-terminated */
    const char *const *environment; /* environment of the pool node, NULL-terminated */
    const char *endpoint;           /* HOST:PORT of the server */
    const char *node_name;
    const char *directory; /* the job's own directory with its files, used if the job names none */
    bool has_image;        /* the agent runs in the job's image; image_enter follows */
    const struct msg_assign *assign;
};

/* Result: command line, environment and directories. */
struct agent_args {
    char **argv;
    char **envp;
    char *directory; /* working directory */
    char *inside; /* working directory in the image; NULL to use the image's own or `directory` */
};

/* Builds the command line. Returns TFE_EINVAL with a sentence if the job requests something that
 * pool agents do not support, or TFE_ENOMEM. The caller frees *ret with agent_args_done. */
int agent_args_make(const struct agent_args_options *options, struct agent_args *ret,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

/* Frees the strings and wipes the environment, which may contain a job's secrets.
 * Accepts a zeroed struct. */
void agent_args_done(struct agent_args *line);

#endif
