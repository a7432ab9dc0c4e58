/* server/web/web.h: state that the modules of tfe-web share.
 *
 *   browser, curl,    http.c ──► routes.c ──► calls.c: one query ──► views.c: one connection to
 *   Prometheus                        │                               the server for each token
 *                                     └─────► streams.c ──► topics.c: one poll for all pages ─┘
 *
 * Everything runs on one event loop. Nothing is retained except what pages show now. */
#ifndef TFE_SERVER_WEB_WEB_H
#define TFE_SERVER_WEB_WEB_H

#include <stdbool.h>
#include <stdint.h>

#include "common/credentials/join.h"

struct event_base;
struct http;
struct logins;
struct metrics;
struct probe;
struct shares;
struct token_reader;
struct view;
struct views;
struct web_settings;

struct web {
    struct event_base *base;
    const struct web_settings *settings;
    struct join_info server; /* endpoint of the server, and tfe-web's own token */
    struct http *http;
    struct views *views;
    struct logins *logins;
    struct metrics *metrics;
    struct probe *probe;
    struct shares *shares;
    struct token_reader *reader; /* NULL if the token cannot be read again */
    struct view *own;            /* view of tfe-web's own token */
    bool requires_login;         /* every caller needs a token or a login */
    uint64_t n_cut; /* streams that were closed because their clients did not read them */
    uint64_t n_requests;
};

#endif
