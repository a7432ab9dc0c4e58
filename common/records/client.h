/* common/records/client.h: one connection to the server for those who ask it: keeps it, dials anew,
 * and puts one question after the other, as the server wants it. On libevent. */
#ifndef TFE_COMMON_RECORDS_CLIENT_H
#define TFE_COMMON_RECORDS_CLIENT_H

#include "common/channel/join.h"
#include "common/message/msg.h"
#include "common/records/record_list.h"

struct event_base;
struct client;
struct client_ask;

/* How a question ended. */
enum client_end {
    CLIENT_ANSWERED,
    CLIENT_REFUSED,      /* by the server: code and sentence are its; or bad_request, before it was
                            sent: a name or number in it is none that may be */
    CLIENT_UNAUTHORISED, /* it does not accept the token; so ends every other question of the next
                            5 s, too */
    CLIENT_STRANGE,      /* its answer does not fit the question */
    CLIENT_FAILED        /* no memory, or the question cannot be sent */
};

#define CLIENT_ASK_ROWS 6

/* A question, which its asker keeps until it has ended or was taken back. Zeroed, but for: */
struct client_ask {
    const struct tfe_msg *message;           /* with all that it points to */
    bool is_order;                           /* DONE ends it; otherwise STATUS_END does */
    enum tfe_msg_type rows[CLIENT_ASK_ROWS]; /* the kinds of rows that answer it */
    /* Takes a row, which lives until it returns, instead of its being listed. NULL: it is listed.
     */
    void (*row)(struct client_ask *ask, const struct tfe_msg *row);
    /* The last callback. The list is the asker's, until then and from now on; it began anew with
     * each connection. sentence is "" for ANSWERED. */
    void (*ended)(struct client_ask *ask, enum client_end end, enum tfe_refusal code,
                  const char *sentence);
    struct row_list list;
    unsigned n_said; /* on so many connections; above 1 an answer may be about an earlier one */
    struct client_ask *next; /* the client's */
};

struct client_config {
    struct event_base *base;
    const struct join_info *join; /* borrowed for the client's life */
    uint32_t retry_max_ms;        /* attempts come after 250 ms, doubling up to this */
    uint32_t silence_ms; /* a server that says so long nothing while it is asked is dialled anew,
                            and asked again; 0: it is waited for */
    /* All may be NULL. An attempt came to nothing, or the connection ended while something was
     * asked; the next one comes by itself. why is a fragment ("connection refused"). */
    void (*waiting)(void *ctx, const char *reason);
    void (*connected)(void *ctx);
    void *ctx;
};

/* Connects once there is something to ask. TFE_ENOMEM. */
int client_new(const struct client_config *config, struct client **ret) TFE_MUST_CHECK;

/* Puts it at the queue's end. Callbacks come from the loop only, never from in here. A server that
 * goes away before it has answered is asked again by the next connection. */
void client_ask(struct client *c, struct client_ask *ask);

/* Takes it back: no callback comes any more. Its list is emptied. One that is not asked now is left
 * alone. */
void client_take_back(struct client *c, struct client_ask *ask);

/* Says more of what the first question asks, as the protocol has it, from its first row() on until
 * it has ended. TFE_ESTATE: it is not asked now, as after a connection that was lost. As
 * channel_send. */
int client_say(struct client *c, const struct tfe_msg *msg) TFE_MUST_CHECK;

bool client_is_connected(const struct client *c);

/* Ends the connection; questions that are open end without a word. NULL is allowed. */
void client_free(struct client *c);

/* What is said of an answer that does not fit its question. */
#define CLIENT_STRANGE_SENTENCE "the server answered with a message that makes no sense here"

#endif
