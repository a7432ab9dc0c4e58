/* tests/unit/web/test_views.c: views.c: one view for each token, their number and lifetime. */
#include <event2/event.h>
#include <string.h>

#include "server/web/http.h"
#include "server/web/logins.h"
#include "server/web/shares.h"
#include "server/web/views.h"
#include "server/web/web.h"
#include "tests/unit/fake_clock.h"
#include "tests/unit/test_runner.h"

static struct web web;
static struct token observer;

static int begin(void **state)
{
    (void)state;
    static const uint8_t root[TOKEN_ROOT_BYTES] = {1};
    static const uint8_t key[TOKEN_PUBLIC_KEY_BYTES] = {2};
    struct token own;
    assert_true(sodium_init() >= 0);
    token_mint(&own, &(struct token_config){.role = PRINCIPAL_OBSERVER}, root, key);
    token_mint(&observer, &(struct token_config){.role = PRINCIPAL_OBSERVER}, root, key);
    fake_clock_init();
    web = (struct web){.base = event_base_new(), .server.token = sodium_malloc(sizeof own)};
    *web.server.token = own;
    assert_int_equal(shares_new(&web.shares), 0);
    assert_int_equal(views_new(&web, &web.views), 0);
    assert_int_equal(logins_new(&web, &web.logins), 0);
    assert_int_equal(views_use(web.views, &own, NULL, &web.own), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(web.own->users, 1);
    logins_free(web.logins);
    view_leave(web.own);
    views_free(web.views);
    shares_free(web.shares);
    join_done(&web.server);
    event_base_free(web.base);
    return 0;
}

#define FIXTURE begin, end

static struct view *use(const struct token *token)
{
    struct view *view;
    assert_int_equal(views_use(web.views, token, NULL, &view), 0);
    return view;
}

TEST_IN(views, unused_view_is_freed_after_its_idle_time)
{
    struct view *first = use(&observer);
    assert_ptr_equal(use(&observer), first);
    assert_int_equal(first->users, 2);
    view_leave(first);
    fake_clock_pass(web.base, 10L * VIEWS_IDLE_MS + VIEWS_IDLE_MS / 2); /* several checks */
    assert_int_equal(first->users, 1);
    first->is_accepted = true;
    view_leave(first);
    fake_clock_pass(web.base, VIEWS_IDLE_MS - 1000);
    first = use(&observer);
    assert_true(first->is_accepted);
    view_leave(first);
    fake_clock_pass(web.base, 3L * VIEWS_IDLE_MS);
    first = use(&observer);
    assert_false(first->is_accepted); /* the view is new */
    view_leave(first);
}

TEST_IN(views, rejected_token_is_tried_again_with_a_new_view)
{
    struct view *first = use(&observer);
    view_reject(first);
    struct view *again = use(&observer);
    assert_ptr_not_equal(first, again);
    view_leave(first);
    fake_clock_pass(web.base, 0); /* the rejected view is freed at once */
    view_leave(again);
}

TEST_IN(views, token_of_another_server_or_for_agents_has_none)
{
    struct view *view;
    struct token token = observer;
    token.server_public_key[0] ^= 1;
    assert_int_equal(views_use(web.views, &token, NULL, &view), TFE_EAUTH);
    token = observer;
    token.role = PRINCIPAL_AGENT;
    assert_int_equal(views_use(web.views, &token, NULL, &view), TFE_EAUTH);
}

/* Uses all views, then releases them. */
static void fill_views(struct token *token)
{
    struct view *views[VIEWS_MAX];
    unsigned n = 0;
    int rc = 0;
    while (rc == 0) {
        token->key_id[TOKEN_KEY_ID_BYTES - 1]++;
        assert_true(n < VIEWS_MAX);
        rc = views_use(web.views, token, NULL, &views[n]);
        n += rc == 0;
    }
    assert_int_equal(rc, TFE_EFULL);
    assert_int_equal(n, VIEWS_MAX - 1); /* one is tfe-web's own */
    while (n > 0) {
        view_leave(views[--n]);
    }
}

TEST_IN(views, unused_view_makes_room_for_another_token)
{
    struct token token = observer;
    fill_views(&token);
    fill_views(&token); /* works at once because the first views are unused */
    fake_clock_pass(web.base, 3L * VIEWS_IDLE_MS);
    fill_views(&token);
}

static int use_new(struct token *token, const uint8_t source[HTTP_SOURCE_BYTES])
{
    struct view *view;
    token->key_id[TOKEN_KEY_ID_BYTES - 1]++;
    const int rc = views_use(web.views, token, source, &view);
    if (rc == 0) {
        view_leave(view);
    }
    return rc;
}

TEST_IN(views, source_with_many_new_tokens_is_limited_others_are_not)
{
    const uint8_t evil[HTTP_SOURCE_BYTES] = {1};
    const uint8_t honest[HTTP_SOURCE_BYTES] = {2};
    struct token token = observer;
    for (int i = 0; i < VIEWS_NEW_BURST; i++) {
        assert_int_equal(use_new(&token, evil), 0);
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(use_new(&token, evil), TFE_EFULL);
    }
    assert_int_equal(use_new(&token, honest), 0);
    fake_clock_pass(web.base, VIEWS_NEW_MS);
    assert_int_equal(use_new(&token, evil), 0);
    assert_int_equal(use_new(&token, evil), TFE_EFULL);
}
