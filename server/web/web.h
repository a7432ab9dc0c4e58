/* server/web/web.h: what the parts of tfe-web share.
 *
 *   browser, curl,    http.c ──► routes.c ──► calls.c: one question ──► views.c: one connection to
 *   Prometheus                        │                                 the server for each token
 *                                     └─────► streams.c ──► topics.c: one poll for all pages ─┘
 *
 * Everything runs on one loop; nothing is kept but what pages look at now. */
#ifndef TFE_SERVER_WEB_WEB_H
#define TFE_SERVER_WEB_WEB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/channel/join.h"

struct event_base;
struct http;
struct logins;
struct metrics;
struct probe;
struct token_reader;
struct view;
struct views;
struct web_settings;

/* Who asks. Strangers have limits of their own, so that they keep nobody else out. */
enum caller {
    CALLER_STRANGER, /* without a token that the server has accepted */
    CALLER_KNOWN,
    CALLER__COUNT
};

struct web {
    struct event_base *base;
    const struct web_settings *settings;
    struct join_info server; /* … and our own token: the one that we came with, or a later one */
    struct http *http;
    struct views *views;
    struct logins *logins;
    struct metrics *metrics;
    struct probe *probe;
    struct token_reader *reader;       /* NULL: the token cannot be read again */
    struct view *own;                  /* of that token */
    bool asks_login;                   /* nobody sees anything without a token of his own */
    uint32_t n_calls[CALLER__COUNT];   /* see calls.h */
    uint32_t n_uploads;                /* see bundle_upload.c */
    uint32_t n_streams[CALLER__COUNT]; /* see streams.h */
    uint32_t n_logs;                   /* see logs.h */
    uint64_t n_cut;                    /* streams that were not read */
    uint64_t n_requests;
};

#endif
