/* tests/unit/web/test_shares.c: shares.c: the holder of an entry, the reserve, and evictions. */
#include <string.h>

#include "common/handshake/token.h"
#include "server/web/shares.h"
#include "tests/unit/test_runner.h"

static struct shares *all;
static struct token root_admin, made_admin, observer;

/* Entries of the tests, with the number of evictions of each. */
static struct entry {
    struct share share;
    int n_evicted;
} entries[2 * SHARE_CALLS_MAX];

static void evict(void *owner)
{
    struct entry *entry = owner;
    entry->n_evicted++;
    share_release(&entry->share);
}

static int begin(void **state)
{
    static const uint8_t root[TOKEN_ROOT_BYTES] = {1};
    static const uint8_t key[TOKEN_PUBLIC_KEY_BYTES] = {2};
    (void)state;
    token_mint(&root_admin, &(struct token_config){.role = PRINCIPAL_ADMIN}, root, key);
    token_mint(&made_admin, &(struct token_config){.role = PRINCIPAL_ADMIN, .is_stored = true},
               root, key);
    token_mint(&observer, &(struct token_config){.role = PRINCIPAL_OBSERVER}, root, key);
    memset(entries, 0, sizeof entries);
    return shares_new(&all);
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        share_release(&entries[i].share);
    }
    shares_free(all);
    return 0;
}

#define FIXTURE begin, end

static bool enter(enum share_kind kind, const struct token *token, const uint8_t *source, size_t i)
{
    const struct share_holder holder = {.token = token, .source = source};
    return share_enter(all, kind, &holder, &entries[i], evict, &entries[i].share);
}

/* Enters entries from first on until one is refused. Returns how many were not. */
static size_t fill(enum share_kind kind, const struct token *token, const uint8_t *source,
                   size_t first)
{
    size_t n = 0;
    while (enter(kind, token, source, first + n)) {
        n++;
    }
    return n;
}

TEST_IN(shares, holder_gets_a_quarter_of_what_is_free)
{
    const uint8_t here[HTTP_SOURCE_BYTES] = {127};
    const uint8_t there[HTTP_SOURCE_BYTES] = {10};
    const size_t capacity = SHARE_CALLS_MAX - SHARE_CALLS_RESERVE;
    size_t n = fill(SHARE_CALLS, &made_admin, here, 0);
    assert_int_equal(n, capacity / 4);
    n += fill(SHARE_CALLS, &observer, here, n);
    assert_int_equal(n, capacity / 4 + (capacity - capacity / 4) / 4);
    const size_t before = n;
    n += fill(SHARE_CALLS, NULL, here, n);
    assert_in_range(n, before + 1, capacity);
    assert_true(enter(SHARE_CALLS, NULL, there, n)); /* a caller with another address */
    assert_false(enter(SHARE_CALLS, NULL, here, n + 1));
}

TEST_IN(shares, unscoped_admin_has_no_share_and_uses_the_reserve)
{
    assert_int_equal(fill(SHARE_UPLOADS, &made_admin, NULL, 0), 3);
    for (size_t i = 3; i < SHARE_UPLOADS_MAX; i++) {
        assert_true(enter(SHARE_UPLOADS, &root_admin, NULL, i));
    }
    assert_int_equal(entries[0].n_evicted, 0);
    /* The reserve is used up as well: another token is refused and evicts no entry in vain. */
    assert_false(enter(SHARE_UPLOADS, &observer, NULL, SHARE_UPLOADS_MAX));
    assert_int_equal(entries[0].n_evicted, 0);
    assert_true(enter(SHARE_UPLOADS, &root_admin, NULL, SHARE_UPLOADS_MAX));
    assert_int_equal(shares_count(all, SHARE_UPLOADS), SHARE_UPLOADS_MAX);
}

TEST_IN(shares, fixed_entry_is_not_evicted)
{
    struct token crowd[SHARE_CALLS_MAX];
    size_t n = fill(SHARE_CALLS, &made_admin, NULL, 0);
    entries[0].share.is_fixed = true;
    for (size_t i = 0; n < SHARE_CALLS_MAX - SHARE_CALLS_RESERVE; i++, n++) {
        crowd[i] = observer;
        crowd[i].key_id[TOKEN_KEY_ID_BYTES - 1] = (uint8_t)i;
        assert_true(enter(SHARE_CALLS, &crowd[i], NULL, n));
    }
    struct token late = observer;
    late.key_id[TOKEN_KEY_ID_BYTES - 2] ^= 1;
    assert_true(enter(SHARE_CALLS, &late, NULL, n));
    assert_int_equal(entries[0].n_evicted, 0);
    assert_int_equal(entries[1].n_evicted, 1); /* the next oldest entry of the largest holder */
}
