/* server/ctl/request.h: sends one request to the server and receives its response, with all
 * errors. */
#ifndef TFE_SERVER_CTL_REQUEST_H
#define TFE_SERVER_CTL_REQUEST_H

#include "server/ctl/verb.h"

/* Finds endpoint and token (see join_done()); called once per process. Returns an exit code;
 * unless it is EXIT_SUCCESS, the reason has been printed on stderr. */
int request_find_server(struct ctl_settings *settings, bool needs_admin);

/* Sends the message and collects the rows, anew with each connection; retries until
 * --timeout while the server is not reached. Returns EXIT_SUCCESS after the end of the response,
 * else an enum ctl_exit after printing the reason on stderr. */
int request_run(const struct ctl_settings *settings, const struct tfe_msg *message,
                struct record_list *rows);

/* As request_run(), but a refusal with the code `but` is not printed: *ret_is_expected is true and
 * the result is CTL_FAILED. It is printed if the request was repeated after a lost response. */
int request_run_but(const struct ctl_settings *settings, const struct tfe_msg *message,
                    struct record_list *rows, enum tfe_refusal expected, bool *ret_is_expected);

#define REQUEST_CHECK_MS 500

struct request_stream {
    /* Receives a row, which is valid during the call. Returns false to end the program with an
     * error. */
    bool (*row)(void *ctx, const struct tfe_msg *row);
    /* The connection was lost; the message, which may be changed now, is sent again on the next
     * connection. */
    void (*lost)(void *ctx);
    /* Called every REQUEST_CHECK_MS; returns false to end the stream. NULL: the stream ends with
     * the response. */
    bool (*should_continue)(void *ctx);
    /* Called after each row until it returns false; *ret is a message to send. NULL if unused. */
    bool (*reply)(void *ctx, struct tfe_msg *ret);
    void *ctx;
};

/* As request_run(), but passes each row on as it arrives. --timeout counts only while there is no
 * connection, because a response may continue for ever. */
int request_stream(const struct ctl_settings *settings, const struct tfe_msg *message,
                   const struct request_stream *stream);

#endif
