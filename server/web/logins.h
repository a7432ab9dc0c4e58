/* server/web/logins.h: browser sessions, each authenticated by a token for some hours. */
#ifndef TFE_SERVER_WEB_LOGINS_H
#define TFE_SERVER_WEB_LOGINS_H

#include <sodium.h>
#include <stdbool.h>

#include "common/base/error.h"

struct login;
struct logins;
struct view;
struct web;

#define LOGINS_MS (8 * 3600 * 1000)
#define LOGIN_KEY_BYTES 32
#define LOGIN_TEXT_MAX (LOGIN_KEY_BYTES * 2 + 1)
#define LOGIN_COOKIE_MAX 256

/* TFE_ENOMEM. */
int logins_new(struct web *web, struct logins **ret) TFE_MUST_CHECK;
/* Ends all logins. NULL is allowed. */
void logins_free(struct logins *all);

/* Returns the login that a header Cookie names, or NULL. cookies: value of the header, or NULL. */
struct login *logins_find(struct logins *all, const char *cookies);

/* Starts a login for this view. If all logins are in use, the oldest one of the token that has most
 * of them ends. Returns NULL if none may end, or without memory. */
struct login *logins_begin(struct logins *all, struct view *view);
void login_end(struct login *login);
/* Writes the value of the header Set-Cookie for the login, or for the end of one if it is NULL. */
void login_cookie(const struct logins *all, const struct login *login, char ret[LOGIN_COOKIE_MAX]);
void logins_end_view(struct logins *all, const struct view *view);

/* The number of a login, and whether the login of this number still exists. */
uint64_t login_number(const struct login *login);
bool logins_has(const struct logins *all, uint64_t number);

struct view *login_view(const struct login *login);
/* Computes the CSRF token that each order of this login needs in X-CSRF-Token. */
void login_csrf(const struct login *login, char ret[LOGIN_TEXT_MAX]);
bool login_is_csrf(const struct login *login, const char *text);

#endif
