/* server/web/views.h: views: one connection to the server for each token, shared by all pages and
 * requests with that token. The server limits what the connection sees and may order. */
#ifndef TFE_SERVER_WEB_VIEWS_H
#define TFE_SERVER_WEB_VIEWS_H

#include <string.h>
#include <sys/queue.h>

#include "common/credentials/join.h"
#include "common/records/client.h"
#include "server/web/http.h"
#include "server/web/web.h"

/* Maximum number of views. Each uses one of the server's 256 sessions for operators
 * (LIMIT_QUERY_SESSIONS). */
#define VIEWS_MAX 64

/* Rate of tokens without a view from one source address: VIEWS_NEW_BURST at once, then one each
 * VIEWS_NEW_MS, because each costs the server a handshake. All sources together get eight times as
 * many. */
#define VIEWS_NEW_MS 500
#define VIEWS_NEW_BURST 8
#define VIEWS_NEW_SOURCES 8

/* Time for which an unused view is retained. */
#define VIEWS_IDLE_MS 30000

struct stream;
struct topic;

struct view {
    struct views *all;
    struct join_info join;
    struct client *client;
    unsigned users;   /* number of logins, calls and streams */
    bool is_accepted; /* the server has accepted the token at least once */
    bool is_rejected; /* the server rejected the token the last time */
    bool is_down;     /* the server is not reachable */
    char reason[128];
    struct tfe_mono idle_since;
    LIST_HEAD(, topic) topics;
    LIST_HEAD(, stream) streams;
    LIST_ENTRY(view) link;
};

/* TFE_ENOMEM. */
int views_new(struct web *web, struct views **ret) TFE_MUST_CHECK;
/* Call after all users of views are gone. NULL is allowed. */
void views_free(struct views *all);

/* Finds or creates the view of this token, which is copied, and adds one user. source: address of
 * the caller (http_source), NULL for tfe-web itself. TFE_EAUTH: the token belongs to another
 * server or an agent. TFE_EFULL: too many tokens are in use, or the source has presented too many
 * new tokens. TFE_ENOMEM. */
int views_use(struct views *all, const struct token *token, const uint8_t *source,
              struct view **ret) TFE_MUST_CHECK;
void view_use(struct view *view);
void view_leave(struct view *view);

/* Makes a request of a view take turns with those of other source addresses and of the other kind:
 * the server answers 20 per second of one connection. */
enum view_request { VIEW_CALL = 1, VIEW_TOPIC = 2 };
static inline void view_set_owner(struct client_request *request, enum view_request kind,
                                  const uint8_t source[HTTP_SOURCE_BYTES])
{
    _Static_assert(sizeof(request->owner) == HTTP_SOURCE_BYTES + 1, "");
    memcpy(request->owner, source, HTTP_SOURCE_BYTES);
    request->owner[HTTP_SOURCE_BYTES] = (uint8_t)kind;
}

/* The server has rejected the token: ends streams and logins of the view. If the view is tfe-web's
 * own, its token is read again. */
void view_reject(struct view *view);

/* Opens another connection for a long query. The caller frees it. TFE_ENOMEM. */
int view_dial(const struct view *view, void (*waiting)(void *ctx, const char *reason),
              void (*connected)(void *ctx), void *ctx, struct client **ret) TFE_MUST_CHECK;

/* Returns the event loop of the view. */
struct event_base *views_base(const struct view *view);

enum principal_role view_role(const struct view *view);

#endif
