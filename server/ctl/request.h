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

/* As request_run, but a refusal with the code `but` is not told: *ret_is_but, and the status is
 * CTL_FAILED. One that may be of an answer that was lost (it was asked twice) is told. */
int request_run_but(const struct ctl_settings *settings, const struct ctl_verb *verb,
                    const struct tfe_msg *message, struct row_list *rows, enum tfe_refusal but,
                    bool *ret_is_but);

#define REQUEST_LOOK_MS 500

struct request_stream {
    /* Takes a row, which lives until it returns. False: no more, the program fails. */
    bool (*row)(void *ctx, const struct tfe_msg *row);
    /* The connection has ended in the middle; the message, which may be changed now, is said again
     * once there is another one. */
    void (*lost)(void *ctx);
    /* Asked every REQUEST_LOOK_MS, whether more is wanted; NULL: all that comes is. */
    bool (*goes_on)(void *ctx);
    /* The next message that answers the row, after each of them until it is false. NULL: none. */
    bool (*reply)(void *ctx, struct tfe_msg *ret);
    bool is_order; /* DONE ends it, no STATUS_END */
    void *ctx;
};

/* As request_run, but each row is handed on as it comes, and --timeout counts only while there is
 * no connection: an answer may go on for ever. */
int request_stream(const struct ctl_settings *settings, const struct ctl_verb *verb,
                   const struct tfe_msg *message, const struct request_stream *stream);

#endif
