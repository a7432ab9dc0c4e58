/* server/web/views.c: see views.h. */
#include "server/web/views.h"

#include <event2/event.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/rate.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "server/web/http.h"
#include "server/web/logins.h"
#include "server/web/streams.h"
#include "server/web/token_reader.h"

/* Number of sources whose rate is remembered. Above it the one with the oldest rate is forgotten.
 */
#define SOURCES_MAX 64

#define RETRY_MAX_MS 2000
#define SILENCE_MS 10000

struct source {
    uint8_t address[HTTP_SOURCE_BYTES];
    struct rate rate;
};

struct views {
    struct web *web;
    LIST_HEAD(, view) list;
    unsigned n;
    struct rate rate; /* rate of new tokens from all sources */
    struct source sources[SOURCES_MAX];
    struct event *check;
};

static void view_free(struct view *view)
{
    LIST_REMOVE(view, link);
    view->all->n--;
    client_free(view->client);
    join_done(&view->join);
    free(view);
}

static void on_check(evutil_socket_t fd, short what, void *ctx)
{
    struct views *all = ctx;
    struct tfe_mono now = clock_mono();
    struct view *view = LIST_FIRST(&all->list);
    while (view) {
        struct view *next = LIST_NEXT(view, link);
        if (view->users == 0 &&
            (view->is_rejected || tfe_mono_sub(now, view->idle_since) > VIEWS_IDLE_MS)) {
            view_free(view);
        }
        view = next;
    }
    (void)timer_after(all->check, VIEWS_IDLE_MS);
}

int views_new(struct web *web, struct views **ret)
{
    struct views *all = calloc(1, sizeof(*all));
    if (!all) {
        return TFE_ENOMEM;
    }
    all->web = web;
    all->check = evtimer_new(web->base, on_check, all);
    if (!all->check || timer_after(all->check, VIEWS_IDLE_MS) != 0) {
        views_free(all);
        return TFE_ENOMEM;
    }
    *ret = all;
    return 0;
}

void views_free(struct views *all)
{
    if (!all) {
        return;
    }
    struct view *view = LIST_FIRST(&all->list);
    while (view) {
        struct view *next = LIST_NEXT(view, link);
        view_free(view);
        view = next;
    }
    event_drop(&all->check);
    free(all);
}

static void on_waiting(void *ctx, const char *reason)
{
    struct view *view = ctx;
    (void)snprintf(view->reason, sizeof(view->reason), "%s", reason);
    if (!view->is_down) {
        view->is_down = true;
        streams_send_state(view);
    }
}

static void on_connected(void *ctx)
{
    struct view *view = ctx;
    view->is_accepted = true;
    view->is_rejected = false;
    if (view->is_down) {
        view->is_down = false;
        streams_send_state(view);
    }
}

static int view_new(struct views *all, const struct token *token, struct view **ret)
{
    struct view *view = calloc(1, sizeof(*view));
    if (!view) {
        return TFE_ENOMEM;
    }
    view->all = all;
    view->join = all->web->server;
    view->join.token = sodium_malloc(sizeof(*token));
    if (!view->join.token) {
        free(view);
        return TFE_ENOMEM;
    }
    *view->join.token = *token;
    LIST_INSERT_HEAD(&all->list, view, link);
    all->n++;
    struct client_config config = {.base = all->web->base,
                                   .join = &view->join,
                                   .retry_max_ms = RETRY_MAX_MS,
                                   .silence_ms = SILENCE_MS,
                                   .waiting = on_waiting,
                                   .connected = on_connected,
                                   .ctx = view};
    int rc = client_new(&config, &view->client);
    if (rc != 0) {
        view_free(view);
        return rc;
    }
    *ret = view;
    return 0;
}

static bool is_same(const struct token *a, const struct token *b)
{
    return sodium_memcmp(a->key_id, b->key_id, TOKEN_KEY_ID_BYTES) == 0 &&
           sodium_memcmp(a->secret, b->secret, TOKEN_SECRET_BYTES) == 0;
}

/* Returns the entry of this address. A new one replaces the oldest entry. */
static struct source *source_of(struct views *all, const uint8_t *address)
{
    struct source *oldest = &all->sources[0];
    for (size_t i = 0; i < SOURCES_MAX; i++) {
        struct source *source = &all->sources[i];
        if (memcmp(source->address, address, HTTP_SOURCE_BYTES) == 0) {
            return source;
        }
        if (tfe_mono_before(source->rate.paid, oldest->rate.paid)) {
            oldest = source;
        }
    }
    *oldest = (struct source){.rate = {{0}}};
    memcpy(oldest->address, address, HTTP_SOURCE_BYTES);
    return oldest;
}

/* Returns true if a token without a view may be shown to the server now. */
static bool may_be_new(struct views *all, const uint8_t *source)
{
    const struct tfe_mono now = clock_mono();
    if (!source) {
        return true;
    }
    return rate_pass(&source_of(all, source)->rate, now, VIEWS_NEW_MS, VIEWS_NEW_BURST) &&
           rate_pass(&all->rate, now, VIEWS_NEW_MS / VIEWS_NEW_SOURCES,
                     VIEWS_NEW_BURST * VIEWS_NEW_SOURCES);
}

/* Frees the view that has been unused for longest if all views exist. Returns false if all are in
 * use. */
static bool make_room(struct views *all)
{
    struct view *view;
    struct view *oldest = NULL;
    if (all->n < VIEWS_MAX) {
        return true;
    }
    LIST_FOREACH(view, &all->list, link)
    {
        if (view->users == 0 &&
            (!oldest || tfe_mono_before(view->idle_since, oldest->idle_since))) {
            oldest = view;
        }
    }
    if (oldest) {
        view_free(oldest);
    }
    return oldest != NULL;
}

int views_use(struct views *all, const struct token *token, const uint8_t *source,
              struct view **ret)
{
    struct view *view;
    LIST_FOREACH(view, &all->list, link)
    {
        const struct token *has = view->join.token;
        if (!view->is_rejected && is_same(has, token)) {
            view_use(view);
            *ret = view;
            return 0;
        }
    }
    if (token->role == PRINCIPAL_AGENT ||
        memcmp(token->server_public_key, all->web->server.token->server_public_key,
               TOKEN_PUBLIC_KEY_BYTES) != 0) {
        return TFE_EAUTH;
    }
    if (!may_be_new(all, source) || !make_room(all)) {
        return TFE_EFULL;
    }
    int rc = view_new(all, token, &view);
    if (rc == 0) {
        view_use(view);
        *ret = view;
    }
    return rc;
}

void view_use(struct view *view)
{
    view->users++;
}

void view_leave(struct view *view)
{
    if (--view->users == 0) {
        view->idle_since = clock_mono();
        if (view->is_rejected) { /* a rejected view is freed at once */
            (void)timer_after(view->all->check, 0);
        }
    }
}

/* Reads tfe-web's own token again: tfe-ctl token rotate may have written a new one. If the token is
 * the old one, the next rejection causes another attempt. A token with another role is ignored:
 * without observer.token it would be the admin's, and every caller would see as much as the admin.
 */
static void renew_own(struct views *all)
{
    struct web *web = all->web;
    struct view *old = web->own;
    struct join_info found = {.port = 0};
    if (token_reader_read(web->reader, &found) != 0) {
        return; /* no token can be read now */
    }
    if (found.token->role == view_role(old) && !is_same(found.token, web->server.token)) {
        const struct join_info before = web->server;
        web->server = found;
        found = before;
        if (views_use(all, web->server.token, NULL, &web->own) == 0) {
            log_info("token_renewed", LOG_S("role", principal_role_name(view_role(web->own))));
            view_leave(old);
        } else {
            found = web->server;
            web->server = before;
        }
    }
    join_done(&found);
}

void view_reject(struct view *view)
{
    if (!view->is_rejected) {
        view->is_rejected = true;
        log_info("token_refused", LOG_S("role", principal_role_name(view_role(view))));
    }
    logins_end_view(view->all->web->logins, view);
    streams_end_view(view); /* also streams that were opened since */
    if (view == view->all->web->own) {
        renew_own(view->all);
    }
}

enum principal_role view_role(const struct view *view)
{
    return view->join.token->role;
}

struct event_base *views_base(const struct view *view)
{
    return view->all->web->base;
}

int view_dial(const struct view *view, void (*waiting)(void *ctx, const char *reason),
              void (*connected)(void *ctx), void *ctx, struct client **ret)
{
    const struct client_config config = {.base = views_base(view),
                                         .join = &view->join,
                                         .retry_max_ms = RETRY_MAX_MS,
                                         .waiting = waiting,
                                         .connected = connected,
                                         .ctx = ctx};
    return client_new(&config, ret);
}
