/* server/ctl/request.h: one question to the server and its answers, with everything that can go
 * wrong. */
#ifndef TFE_SERVER_CTL_REQUEST_H
#define TFE_SERVER_CTL_REQUEST_H

#include "server/ctl/verb.h"

/* Finds endpoint and token, for join_done; once in the life of the process. Returns an exit code;
 * if that is not EXIT_SUCCESS, it has said why on stderr. */
int request_find_server(struct ctl_settings *settings, const struct ctl_verb *verb);

/* Says the verb's message, and lists the rows, anew with each connection. While the server is not
 * reached it tries again until --timeout. Returns EXIT_SUCCESS after the end of the answer, else an
 * enum ctl_exit, after having said why on stderr. */
int request_run(const struct ctl_settings *settings, const struct ctl_verb *verb,
                const struct tfe_msg *message, struct row_list *rows);

#endif
