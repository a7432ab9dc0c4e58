/* server/ctl/request.h: one question to the server and its answers, with everything that can go
 * wrong. */
#ifndef TFE_SERVER_CTL_REQUEST_H
#define TFE_SERVER_CTL_REQUEST_H

#include "common/base/msg.h"
#include "common/wire/token.h"
#include "server/ctl/settings.h"

enum request_progress {
    REQUEST_MORE,   /* more messages are to come */
    REQUEST_DONE,   /* that was the last one */
    REQUEST_FAILED, /* no memory for the answer */
    REQUEST_STRANGE /* not a message that belongs here */
};

struct request {
    const struct tfe_msg *question;
    /* Roles that may ask this; their token files are looked for, the first one first. */
    enum token_role roles[3];
    unsigned n_roles;
    /* A new connection: forget what came on the last one. */
    void (*begin)(void *ctx);
    /* REFUSED does not come here. msg lives until the call returns. */
    enum request_progress (*reply)(void *ctx, const struct tfe_msg *msg);
    void *ctx;
};

/* Finds server and token, asks, and hands over the answers. While the server is not reached it
 * tries again until --timeout. Returns EXIT_SUCCESS after REQUEST_DONE, else an enum ctl_exit,
 * after having said why on stderr. */
int request_run(const struct ctl_settings *settings, const struct request *request);

/* Whether this can be the name of a job; if not, it has said so on stderr. */
bool request_job_is_sound(const char *job);

#endif
