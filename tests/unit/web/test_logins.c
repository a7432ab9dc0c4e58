/* tests/unit/web/test_logins.c: who is known by a cookie, for how long, and by which mark orders
 * are told from forged ones. Time is the story's, and so are the views (__wrap_view_use). */
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/clock.h"
#include "server/web/logins.h"
#include "server/web/settings.h"
#include "server/web/views.h"
#include "tests/unit/story.h"

static struct web_settings settings;
static struct web web = {.settings = &settings};
static struct logins *all;
static struct view one, other;
static struct tfe_mono now;

struct tfe_mono __wrap_clock_mono(void);
struct tfe_mono __wrap_clock_mono(void)
{
    return now;
}

void __wrap_view_use(struct view *view);
void __wrap_view_use(struct view *view)
{
    view->users++;
}

void __wrap_view_leave(struct view *view);
void __wrap_view_leave(struct view *view)
{
    assert_true(view->users > 0);
    view->users--;
}

static int begin(void **state)
{
    (void)state;
    settings = (struct web_settings){.tls_cert = NULL};
    memset(&one, 0, sizeof one);
    memset(&other, 0, sizeof other);
    now.ms = 1000000;
    assert_true(sodium_init() >= 0);
    return logins_new(&web, &all);
}

static int end(void **state)
{
    (void)state;
    logins_free(all);
    assert_int_equal(one.users + other.users, 0);
    return 0;
}

#define FIXTURE begin, end

/* What an answer would have a browser keep, "tfe_login=…"; the caller frees it. */
static char *cookie_set(struct evhttp_request *req)
{
    const char *line = evhttp_find_header(evhttp_request_get_output_headers(req), "Set-Cookie");
    assert_non_null(line);
    return strndup(line, strcspn(line, ";"));
}

static char *log_in(struct view *view, struct login **ret)
{
    struct evhttp_request *req = evhttp_request_new(NULL, NULL);
    *ret = logins_begin(all, view, req);
    char *cookie = cookie_set(req);
    evhttp_request_free(req);
    return cookie;
}

static struct login *find(const char *cookie)
{
    struct evhttp_request *req = evhttp_request_new(NULL, NULL);
    if (cookie) {
        evhttp_add_header(evhttp_request_get_input_headers(req), "Cookie", cookie);
    }
    struct login *found = logins_find(all, req);
    evhttp_request_free(req);
    return found;
}

TEST_IN(logins, are_found_by_their_cookie_among_others)
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
    second[strlen(second) - 2] = '\0'; /* a byte short */
    assert_null(find(second));
    free(first);
    free(second);
}

TEST_IN(logins, end_after_some_hours)
{
    struct login *login;
    char *cookie = log_in(&one, &login);
    const uint64_t number = login_number(login);
    assert_int_equal(one.users, 1);
    now.ms += LOGINS_MS;
    assert_ptr_equal(find(cookie), login);
    assert_true(logins_has(all, number));
    now.ms += 1;
    assert_false(logins_has(all, number));
    assert_null(find(cookie));
    assert_int_equal(one.users, 0);
    free(cookie);
}

TEST_IN(logins, that_end_are_nobodys_and_leave_their_view)
{
    struct login *login;
    char *cookie = log_in(&one, &login);
    const uint64_t number = login_number(login);
    struct evhttp_request *req = evhttp_request_new(NULL, NULL);
    logins_end(all, login, req);
    const char *line = evhttp_find_header(evhttp_request_get_output_headers(req), "Set-Cookie");
    assert_non_null(strstr(line, "tfe_login=; ")); /* the browser forgets it, too */
    assert_non_null(strstr(line, "Max-Age=0"));
    evhttp_request_free(req);
    assert_null(find(cookie));
    assert_false(logins_has(all, number));
    assert_int_equal(one.users, 0);
    free(cookie);
}

TEST_IN(logins, of_a_view_that_is_rejected_end_and_no_others)
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

TEST_IN(logins, above_their_number_the_oldest_makes_room_and_its_number_is_not_given_again)
{
    struct login *login;
    char *oldest = log_in(&one, &login);
    const uint64_t first = login_number(login);
    char *second = NULL;
    for (int i = 1; i < LOGINS_MAX; i++) {
        now.ms += 1000;
        char *cookie = log_in(&one, &login);
        if (i == 1) {
            second = cookie;
        } else {
            free(cookie);
        }
    }
    assert_non_null(find(oldest));
    now.ms += 1000;
    free(log_in(&one, &login));
    assert_null(find(oldest));
    assert_non_null(find(second));
    assert_false(logins_has(all, first));
    assert_int_equal(login_number(login), first + LOGINS_MAX);
    assert_int_equal(one.users, LOGINS_MAX);
    free(oldest);
    free(second);
}

TEST_IN(logins, tell_their_orders_by_a_mark_that_is_not_the_cookie)
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
    assert_false(login_is_csrf(a, mark)); /* its last letter counts, too */
    free(cookie);
}

TEST_IN(logins, go_over_tls_only_where_there_is_tls)
{
    for (int tls = 0; tls < 2; tls++) {
        struct evhttp_request *req = evhttp_request_new(NULL, NULL);
        settings.tls_cert = tls ? "cert.pem" : NULL;
        (void)logins_begin(all, &one, req);
        const char *line = evhttp_find_header(evhttp_request_get_output_headers(req), "Set-Cookie");
        assert_int_equal(strstr(line, "; Secure") != NULL, tls);
        assert_non_null(strstr(line, "HttpOnly; SameSite=Strict"));
        evhttp_request_free(req);
    }
}
