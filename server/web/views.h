/* server/web/views.h: what one token sees: its own connection to the server, which shows it what it
 * may see and takes the orders that it may give. All pages of one token share it. */
#ifndef TFE_SERVER_WEB_VIEWS_H
#define TFE_SERVER_WEB_VIEWS_H

#include <sys/queue.h>

#include "common/credentials/join.h"
#include "common/records/client.h"
#include "server/web/web.h"

/* Tokens in use at a time: each has a connection of the server's 256 for operators
 * (LIMIT_QUERY_SESSIONS). */
#define VIEWS_MAX 64

/* Tokens that no view has yet, of one source address: one each VIEWS_NEW_MS after the first
 * VIEWS_NEW_BURST, since each costs the server a handshake. All sources together get eight times as
 * many. */
#define VIEWS_NEW_MS 500
#define VIEWS_NEW_BURST 8
#define VIEWS_NEW_SOURCES 8

/* One that nobody uses any more is kept so long. */
#define VIEWS_IDLE_MS 30000

struct stream;
struct topic;

struct view {
    struct views *all;
    struct join_info join;
    struct client *client;
    unsigned users;   /* logins, calls and streams */
    bool is_accepted; /* the server has taken the token once */
    bool is_rejected; /* the server did not take the token when it was asked last */
    bool is_down;     /* the server is not reached */
    char reason[128];
    struct tfe_mono idle_since;
    LIST_HEAD(, topic) topics;
    LIST_HEAD(, stream) streams;
    LIST_ENTRY(view) link;
};

/* TFE_ENOMEM. */
int views_new(struct web *web, struct views **ret) TFE_MUST_CHECK;
/* After all that use one. NULL is allowed. */
void views_free(struct views *all);

/* Finds or makes the view of this token, which is copied, and counts one more user of it. source:
 * the address of the caller (http_source), NULL for tfe-web itself. TFE_EAUTH: the token is of
 * another server, or an agent's. TFE_EFULL: too many tokens are in use, or the source has shown too
 * many new ones. TFE_ENOMEM. */
int views_use(struct views *all, const struct token *token, const uint8_t *source,
              struct view **ret) TFE_MUST_CHECK;
void view_use(struct view *view);
void view_leave(struct view *view);

/* The server does not take its token: pages and logins of it end. Our own is read anew. */
void view_reject(struct view *view);

/* A connection besides its own, for a question that takes long; the asker's to free. TFE_ENOMEM. */
int view_dial(const struct view *view, void (*waiting)(void *ctx, const char *reason),
              void (*connected)(void *ctx), void *ctx, struct client **ret) TFE_MUST_CHECK;

/* The loop that it lives on. */
struct event_base *views_base(const struct view *view);

enum principal_role view_role(const struct view *view);

#endif
