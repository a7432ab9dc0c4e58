/* tests/unit/web/test_logins.c: logins.c: cookies, their lifetime, and CSRF tokens. The clock is a
 * fake. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/web/logins.h"
#include "server/web/shares.h"
#include "server/web/views.h"
#include "server/web/web_settings.h"
#include "tests/unit/fake_clock.h"
#include "tests/unit/test_runner.h"

static struct web_settings settings;
static struct web web = {.settings = &settings};
static struct logins *all;
static struct token tokens[2] = {{.key_id = {1}}, {.key_id = {2}}};
static struct view one, other;

static int begin(void **state)
{
    (void)state;
    settings = (struct web_settings){.tls_cert = NULL};
    one = (struct view){.join.token = &tokens[0]};
    other = (struct view){.join.token = &tokens[1]};
    assert_int_equal(shares_new(&web.shares), 0);
    fake_clock_init();
    assert_true(sodium_init() >= 0);
    return logins_new(&web, &all);
}

static int end(void **state)
{
    (void)state;
    logins_free(all);
    shares_free(web.shares);
    assert_int_equal(one.users + other.users, 0);
    return 0;
}

#define FIXTURE begin, end

/* Returns the cookie of a new login, NAME=VALUE, which the caller frees. */
static char *log_in(struct view *view, struct login **ret)
{
    char line[LOGIN_COOKIE_MAX];
    *ret = logins_begin(all, view);
    login_cookie(all, *ret, line);
    return strndup(line, strcspn(line, ";"));
}

static struct login *find(const char *cookie)
{
    return logins_find(all, cookie);
}

TEST_IN(logins, cookie_finds_its_login_among_others)
{
    struct login *a;
    struct login *b;
    char *first = log_in(&one, &a);
    char *second = log_in(&other, &b);
    char both[512];
    assert_ptr_equal(find(first), a);
    assert_ptr_equal(find(second), b);
    (void)snprintf(both, sizeof both, "x_tfe_login=00; theme=dark; %s; y=1", second);
    assert_ptr_equal(find(both), b);
    assert_ptr_equal(login_view(b), &other);
    assert_null(find(NULL));
    assert_null(find("tfe_login="));
    first[strlen(first) - 2] = first[strlen(first) - 2] == '0' ? '1' : '0';
    assert_null(find(first));
    second[strlen(second) - 2] = '\0'; /* one byte too short */
    assert_null(find(second));
    free(first);
    free(second);
}

TEST_IN(logins, login_ends_after_its_time)
{
    struct login *login;
    char *cookie = log_in(&one, &login);
    const uint64_t number = login_number(login);
    assert_int_equal(one.users, 1);
    fake_clock_pass(NULL, LOGINS_MS);
    assert_ptr_equal(find(cookie), login);
    assert_true(logins_has(all, number));
    fake_clock_pass(NULL, 1);
    assert_false(logins_has(all, number));
    assert_null(find(cookie));
    assert_int_equal(one.users, 0);
    free(cookie);
}

TEST_IN(logins, ended_login_releases_its_view_and_deletes_its_cookie)
{
    struct login *login;
    char *cookie = log_in(&one, &login);
    const uint64_t number = login_number(login);
    login_end(login);
    assert_null(find(cookie));
    assert_false(logins_has(all, number));
    assert_int_equal(one.users, 0);
    free(cookie);
}

TEST_IN(logins, rejected_view_ends_its_logins_only)
{
    struct login *a;
    struct login *b;
    char *first = log_in(&one, &a);
    char *second = log_in(&other, &b);
    logins_end_view(all, &one);
    assert_null(find(first));
    assert_ptr_equal(find(second), b);
    free(first);
    free(second);
}

TEST_IN(logins, login_above_the_share_ends_the_oldest_and_reuses_no_number)
{
    enum { SHARE = SHARE_LOGINS_MAX / 4 };
    struct login *login;
    char *oldest = log_in(&one, &login);
    const uint64_t first = login_number(login);
    char *second = NULL;
    for (int i = 1; i < SHARE; i++) {
        fake_clock_pass(NULL, 1000);
        char *cookie = log_in(&one, &login);
        if (i == 1) {
            second = cookie;
        } else {
            free(cookie);
        }
    }
    assert_non_null(find(oldest));
    fake_clock_pass(NULL, 1000);
    free(log_in(&one, &login));
    assert_null(find(oldest));
    assert_non_null(find(second));
    assert_false(logins_has(all, first));
    assert_int_equal(login_number(login), first + SHARE);
    assert_int_equal(one.users, SHARE);
    free(oldest);
    free(second);
}

TEST_IN(logins, logins_of_many_tokens_end_none_of_a_token_with_one)
{
    static struct token crowd[SHARE_LOGINS_MAX * 2];
    static struct view views[SHARE_LOGINS_MAX * 2];
    struct login *login;
    char *honest = log_in(&other, &login);
    for (int i = 0; i < SHARE_LOGINS_MAX; i++) {
        fake_clock_pass(NULL, 1);
        free(log_in(&one, &login)); /* the attacker has one token */
    }
    assert_int_equal(one.users, (SHARE_LOGINS_MAX - 1) / 4);
    for (size_t i = 0; i < SHARE_LOGINS_MAX - 2; i++) {
        crowd[i].key_id[0] = 3;
        memcpy(crowd[i].key_id + 1, &i, sizeof i);
        views[i].join.token = &crowd[i];
        fake_clock_pass(NULL, 1);
        free(log_in(&views[i],
                    &login)); /* all logins are in use: each new one evicts one of the attacker's */
    }
    assert_non_null(find(honest));
    assert_int_equal(one.users, 1);
    free(honest);
}

TEST_IN(logins, csrf_token_differs_from_the_cookie)
{
    struct login *a;
    struct login *b;
    char mark[LOGIN_TEXT_MAX];
    char others[LOGIN_TEXT_MAX];
    char *cookie = log_in(&one, &a);
    free(log_in(&one, &b));
    login_csrf(a, mark);
    login_csrf(b, others);
    assert_true(login_is_csrf(a, mark));
    assert_false(login_is_csrf(a, others));
    assert_false(login_is_csrf(a, NULL));
    assert_false(login_is_csrf(a, ""));
    assert_false(login_is_csrf(a, strchr(cookie, '=') + 1));
    mark[LOGIN_TEXT_MAX - 2] ^= 1;
    assert_false(login_is_csrf(a, mark)); /* the last character is compared as well */
    free(cookie);
}

TEST_IN(logins, cookie_without_host_prefix_is_ignored_over_tls)
{
    struct login *login;
    settings.tls_cert = "cert.pem";
    char *cookie = log_in(&one, &login);
    assert_ptr_equal(find(cookie), login);
    assert_null(
        find(strstr(cookie, "tfe_login="))); /* any page of the host's domain can set this cookie */
    free(cookie);
}

TEST_IN(logins, cookie_is_secure_if_there_is_tls)
{
    char line[LOGIN_COOKIE_MAX];
    for (int tls = 0; tls < 2; tls++) {
        settings.tls_cert = tls ? "cert.pem" : NULL;
        login_cookie(all, logins_begin(all, &one), line);
        assert_int_equal(strstr(line, "; Secure") != NULL, tls);
        assert_int_equal(strncmp(line, "__Host-tfe_login=", 17) == 0, tls);
        assert_non_null(strstr(line, "; Path=/; Max-Age=28800; HttpOnly; SameSite=Strict"));
    }
    login_cookie(all, NULL, line);
    assert_string_equal(line, "__Host-tfe_login=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; "
                              "Secure");
}
