/* common/records/client.h: a connection of tfe-ctl or tfe-web to the server. Reconnects by itself
 * and sends queued requests one after the other. Uses libevent. */
#ifndef TFE_COMMON_RECORDS_CLIENT_H
#define TFE_COMMON_RECORDS_CLIENT_H

#include "common/credentials/join.h"
#include "common/message/msg.h"
#include "common/records/record.h"

struct event_base;
struct client;
struct client_request;

/* How a request ended. */
enum client_end {
    CLIENT_ANSWERED,
    CLIENT_REFUSED,      /* refused by the server, with its code and sentence; or bad_request before
                            sending, if a name or number in it is invalid */
    CLIENT_UNAUTHORISED, /* the server rejects the token; all further requests of the next 5 s end
                            the same way */
    CLIENT_UNEXPECTED,   /* the response does not match the request */
    CLIENT_FAILED        /* out of memory, or the request cannot be sent */
};

/* Length of an owner: a source address, and a byte that separates kinds of requests of one source.
 */
#define CLIENT_OWNER_BYTES 17

/* A request, owned by the caller until it has ended or was cancelled. Zeroed except: */
struct client_request {
    const struct tfe_msg *message; /* the message to send, with all that it points to */
    /* Receives a record, valid until it returns. If NULL, records are appended to list. */
    void (*row)(struct client_request *request, const struct tfe_msg *row);
    /* The last callback. The list belongs to the caller until the request is queued and from now
     * on; it restarts with each connection. sentence is "" for ANSWERED. */
    void (*ended)(struct client_request *request, enum client_end end, enum tfe_refusal code,
                  const char *sentence);
    struct record_list list;
    unsigned n_sent; /* number of connections on which the request was sent; above 1, the response
                        may concern an earlier one */
    uint8_t owner[CLIENT_OWNER_BYTES]; /* for whom the request is sent; zeroed: for the program */
    struct client_request *next;       /* queue link, private to the client */
    uint64_t turn;                     /* position in the queue, private to the client */
};

struct client_config {
    struct event_base *base;
    const struct join_info *join; /* endpoint and token, borrowed for the client's life */
    uint32_t retry_max_ms;        /* maximum reconnect delay; it starts at 250 ms and doubles */
    uint32_t silence_ms; /* reconnect and repeat the request if the server is silent for this long;
                            0 to wait indefinitely */
    /* Optional callbacks. waiting: an attempt failed, or the connection was lost during a request;
     * the client reconnects by itself. reason is a phrase ("connection refused"). connected: a
     * session is established. */
    void (*waiting)(void *ctx, const char *reason);
    void (*connected)(void *ctx);
    void *ctx;
};

/* Makes a client, which connects with the first request. Returns 0 or TFE_ENOMEM. */
int client_new(const struct client_config *config, struct client **ret) TFE_MUST_CHECK;

/* Adds a request to the queue, in which the requests of different owners take turns. Callbacks run
 * from the loop only, never from within this call. If the connection is lost before the response is
 * complete, the request is repeated on the next one. */
void client_request(struct client *c, struct client_request *request);

/* Cancels a request: no callback follows. Empties its list. Ignores one that is not queued. */
void client_cancel(struct client *c, struct client_request *request);

/* Sends a further message of the current request, such as upload data, between its first row() and
 * its end. Returns TFE_ESTATE if the request is not active, for instance after a lost connection;
 * other errors as channel_send. */
int client_send_more(struct client *c, const struct tfe_msg *msg) TFE_MUST_CHECK;

bool client_is_connected(const struct client *c);

/* Returns true if DONE ends the response to this request; otherwise STATUS_END does. */
bool client_is_order(enum tfe_msg_type request);

/* Closes the connection and drops pending requests without callbacks. NULL is allowed. */
void client_free(struct client *c);

/* Sentence for a response that does not match its request. */
#define CLIENT_UNEXPECTED_SENTENCE "unexpected response from the server"

#endif
