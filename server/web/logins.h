/* server/web/logins.h: browser sessions, each authenticated by a token for some hours. */
#ifndef TFE_SERVER_WEB_LOGINS_H
#define TFE_SERVER_WEB_LOGINS_H

#include <sodium.h>
#include <stdbool.h>

#include "common/base/error.h"

struct http_request;
struct login;
struct logins;
struct view;
struct web;

#define LOGINS_MS (8 * 3600 * 1000)
#define LOGIN_KEY_BYTES 32
#define LOGIN_TEXT_MAX (LOGIN_KEY_BYTES * 2 + 1)

/* TFE_ENOMEM. */
int logins_new(struct web *web, struct logins **ret) TFE_MUST_CHECK;
/* Ends all logins. NULL is allowed. */
void logins_free(struct logins *all);

/* Returns the login of the request's cookie, or NULL. */
struct login *logins_find(struct logins *all, struct http_request *req);

/* Starts a login for this view and sets its cookie in the response. If all logins are in use, the
 * oldest one of the token that has most of them ends. Returns NULL if none may end, or without
 * memory. */
struct login *logins_begin(struct logins *all, struct view *view, struct http_request *req);
/* Ends a login and deletes its cookie in the response. */
void logins_end(struct logins *all, struct login *login, struct http_request *req);
void logins_end_view(struct logins *all, const struct view *view);

/* The number of a login, and whether the login of this number still exists. */
uint64_t login_number(const struct login *login);
bool logins_has(const struct logins *all, uint64_t number);

struct view *login_view(const struct login *login);
/* Computes the CSRF token that each order of this login needs in X-CSRF-Token. */
void login_csrf(const struct login *login, char ret[LOGIN_TEXT_MAX]);
bool login_is_csrf(const struct login *login, const char *text);

#endif
