/* agent/pool/agent_args.h: an assignment as the command line and environment of an agent: as
 * somebody would start it by hand for that job. */
#ifndef TFE_AGENT_POOL_AGENT_ARGS_H
#define TFE_AGENT_POOL_AGENT_ARGS_H

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

/* All is borrowed for the call. */
struct agent_args_options {
    const char *program;            /* path of tfe-agent */
    char *const *options;           /* those that the pool was started with; NULL ends them */
    const char *const *environment; /* … and its environment; likewise */
    const char *endpoint;           /* HOST:PORT of the server */
    const char *node_name;
    const char *directory; /* the job's own, with what it brings, if it names none */
    bool has_image;        /* what runs it is run in its image: image_enter follows */
    const struct msg_assign *assign;
};

/* NULL-terminated lists. */
struct agent_args {
    char **argv;
    char **envp;
    char *directory; /* to work in */
    char *inside;    /* to work in, in the image; NULL: as the image says, else `directory` */
};

/* TFE_EINVAL: the job wants what an agent of the pool does not do; why is one sentence. TFE_ENOMEM
 * with why. *ret is the caller's to end. */
int agent_args_make(const struct agent_args_options *options, struct agent_args *ret,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

/* Wipes the environment, as a job's may have secrets. A zeroed one is allowed. */
void agent_args_done(struct agent_args *line);

#endif
