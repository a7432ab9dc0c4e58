/* server/web/logins.c: see logins.h. */
#include "server/web/logins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "server/web/shares.h"
#include "server/web/views.h"
#include "server/web/web_settings.h"

/* With the prefix __Host- browsers accept the cookie only from this host, over TLS, and for all
 * paths. */
#define COOKIE "tfe_login"
#define COOKIE_TLS "__Host-" COOKIE

/* One more than are counted: a new login enters its share before another one is evicted. */
#define LOGINS (SHARE_LOGINS_MAX + 1)

struct login {
    struct view *view; /* NULL if the entry is free */
    struct share share;
    uint8_t key[LOGIN_KEY_BYTES];
    struct tfe_mono until;
    uint64_t number; /* starts at 1 and is never reused */
};

struct logins {
    struct web *web;
    uint64_t n_begun;
    struct login v[LOGINS];
};

int logins_new(struct web *web, struct logins **ret)
{
    struct logins *all = sodium_malloc(sizeof(*all));
    if (!all) {
        return TFE_ENOMEM;
    }
    memset(all, 0, sizeof(*all));
    all->web = web;
    *ret = all;
    return 0;
}

void login_end(struct login *login)
{
    share_release(&login->share);
    if (login->view) {
        view_leave(login->view);
    }
    sodium_memzero(login, sizeof(*login));
}

void logins_free(struct logins *all)
{
    for (size_t i = 0; all && i < LOGINS; i++) {
        login_end(&all->v[i]);
    }
    sodium_free(all);
}

static const char *cookie_name(const struct logins *all)
{
    return all->web->settings->tls_cert ? COOKIE_TLS : COOKIE;
}

/* Returns the value of the login cookie in "a=b; tfe_login=…", or NULL. */
static const char *cookie_of(const struct logins *all, const char *cookies)
{
    const char *name = cookie_name(all);
    const size_t n = strlen(name);
    const char *at = cookies;
    while (at) {
        at += strspn(at, "; ");
        if (strncmp(at, name, n) == 0 && at[n] == '=') {
            return at + n + 1;
        }
        at = strchr(at, ';');
    }
    return NULL;
}

static void end_expired(struct logins *all, struct tfe_mono now)
{
    for (size_t i = 0; i < LOGINS; i++) {
        struct login *login = &all->v[i];
        if (login->view && tfe_mono_before(login->until, now)) {
            login_end(login);
        }
    }
}

struct login *logins_find(struct logins *all, const char *cookies)
{
    const char *text = cookie_of(all, cookies);
    uint8_t key[LOGIN_KEY_BYTES];
    size_t n = 0;
    struct tfe_mono now = clock_mono();
    struct login *found = NULL;
    if (!text || sodium_hex2bin(key, sizeof(key), text, strcspn(text, "; "), NULL, &n, NULL) != 0 ||
        n != sizeof(key)) {
        return NULL;
    }
    end_expired(all, now);
    for (size_t i = 0; i < LOGINS; i++) {
        struct login *login = &all->v[i];
        if (login->view && sodium_memcmp(login->key, key, sizeof(key)) == 0) {
            found = login;
        }
    }
    return found;
}

void login_cookie(const struct logins *all, const struct login *login, char ret[LOGIN_COOKIE_MAX])
{
    char text[LOGIN_TEXT_MAX] = "";
    if (login) {
        (void)sodium_bin2hex(text, sizeof(text), login->key, sizeof(login->key));
    }
    (void)snprintf(ret, LOGIN_COOKIE_MAX, "%s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s",
                   cookie_name(all), text, login ? LOGINS_MS / 1000 : 0,
                   all->web->settings->tls_cert ? "; Secure" : "");
    sodium_memzero(text, sizeof(text));
}

static void evict(void *owner)
{
    login_end(owner);
}

static struct login *find_free(struct logins *all)
{
    end_expired(all, clock_mono());
    for (size_t i = 0; i < LOGINS; i++) {
        if (!all->v[i].view) {
            return &all->v[i];
        }
    }
    return NULL; /* not reached: at most SHARE_LOGINS_MAX are in use */
}

struct login *logins_begin(struct logins *all, struct view *view)
{
    struct share_holder holder = {.token = view->join.token};
    struct login *login = find_free(all);
    if (!login ||
        !share_enter(all->web->shares, SHARE_LOGINS, &holder, login, evict, &login->share)) {
        return NULL;
    }
    login->view = view;
    login->number = ++all->n_begun;
    login->until = tfe_mono_add(clock_mono(), LOGINS_MS);
    view_use(view);
    randombytes_buf(login->key, sizeof(login->key));
    return login;
}

void logins_end_view(struct logins *all, const struct view *view)
{
    for (size_t i = 0; i < LOGINS; i++) {
        if (all->v[i].view == view) {
            login_end(&all->v[i]);
        }
    }
}

uint64_t login_number(const struct login *login)
{
    return login->number;
}

bool logins_has(const struct logins *all, uint64_t number)
{
    struct tfe_mono now = clock_mono();
    for (size_t i = 0; i < LOGINS; i++) {
        const struct login *login = &all->v[i];
        if (login->view && login->number == number) {
            return !tfe_mono_before(login->until, now);
        }
    }
    return false;
}

struct view *login_view(const struct login *login)
{
    return login->view;
}

void login_csrf(const struct login *login, char ret[LOGIN_TEXT_MAX])
{
    uint8_t mark[LOGIN_KEY_BYTES];
    (void)crypto_generichash(mark, sizeof(mark), (const uint8_t *)"csrf", 4, login->key,
                             sizeof(login->key));
    (void)sodium_bin2hex(ret, LOGIN_TEXT_MAX, mark, sizeof(mark));
}

bool login_is_csrf(const struct login *login, const char *text)
{
    char right[LOGIN_TEXT_MAX];
    login_csrf(login, right);
    return text && strlen(text) == sizeof(right) - 1 &&
           sodium_memcmp(text, right, sizeof(right) - 1) == 0;
}
