/* tests/unit/channel/test_admission.c: no key or scope can take all slots from the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/channel/admission.h"
#include "tests/unit/test_runner.h"

#define PLACES 512

static struct admission *a;
static struct admission_slot places[PLACES];
static bool stays[PLACES];

static int begin(void **state)
{
    (void)state;
    memset(places, 0, sizeof places);
    memset(stays, 0, sizeof stays);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLACES; i++) {
        admission_leave(a, &places[i]);
    }
    assert_int_equal(admission_count(a), 0);
    assert_int_equal(admission_used(a), 0);
    admission_free(a);
    return 0;
}

#define FIXTURE begin, end

static void make(uint64_t capacity, uint64_t reserve, uint64_t max, bool evicts_oldest)
{
    const struct admission_config config = {capacity, reserve, max, evicts_oldest};
    assert_int_equal(admission_new(&config, &a), 0);
}

static void enter_as(size_t i, const char *key, const char *scope, uint64_t cost, bool is_admin)
{
    const struct admission_claim claim = {
        .by = {[ADMISSION_KEY] = {key, strlen(key)}, [ADMISSION_SCOPE] = {scope, strlen(scope)}},
        .cost = cost,
        .is_privileged = is_admin};
    assert_int_equal(admission_enter(a, &claim, &stays[i], &places[i]), 0);
}

static void enter(size_t i, const char *key)
{
    enter_as(i, key, "", 1, false);
}

/* Returns the index of the slot to be evicted for the newest one, or -1 if none. */
static int surplus(size_t newest)
{
    const struct admission_slot *place = admission_next_eviction(a, &places[newest], NULL);
    return place ? (int)(place - places) : -1;
}

static bool may_go(const void *owner)
{
    return !*(const bool *)owner;
}

static int surplus_that_may_go(size_t newest)
{
    const struct admission_slot *place = admission_next_eviction(a, &places[newest], may_go);
    return place ? (int)(place - places) : -1;
}

/* Enters n clients of one key like a caller does. Returns how many were admitted. */
static size_t fill(size_t first, size_t n, const char *key, const char *scope, bool is_admin)
{
    size_t in = 0;
    for (size_t i = first; i < first + n; i++) {
        enter_as(i, key, scope, 1, is_admin);
        for (int goes; (goes = surplus(i)) >= 0;) {
            admission_leave(a, &places[goes]);
        }
        in += places[i].is_in;
    }
    return in;
}

TEST_IN(admission, one_key_has_a_quarter_of_what_is_free)
{
    make(256, 8, 0, false);
    assert_int_equal(fill(0, 260, "k1", "", false), 62);
    assert_int_equal(fill(260, 100, "k2", "", false), (248 - 62) / 4);
    assert_int_equal(fill(360, 1, "k3", "", false), 1);
}

TEST_IN(admission, keys_of_one_scope_share_one_share)
{
    make(256, 8, 0, false);
    size_t in = 0;
    for (size_t i = 0; i < 100; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%zu", i);
        in += fill(3 * i, 3, key, "team-a-*", false);
    }
    assert_int_equal(in, 62);
    assert_int_equal(fill(400, 1, "other", "team-b-*", false), 1);
}

TEST_IN(admission, the_reserve_is_for_privileged_places_alone)
{
    make(12, 4, 0, false);
    char key[8];
    /* Many keys with few slots each fill everything except the reserve. */
    for (size_t i = 0; i < 8; i++) {
        (void)snprintf(key, sizeof key, "k%zu", i);
        assert_int_equal(fill(i, 1, key, "", false), 1);
    }
    assert_int_equal(fill(8, 1, "one more", "", false), 0);
    assert_int_equal(fill(9, 4, "admin", "", true), 4);
    assert_int_equal(admission_count(a), 12);
    for (size_t i = 0; i < 8; i++) {
        assert_true(places[i].is_in);
    }
    /* An admin may also evict other keys' slots. */
    assert_int_equal(fill(13, 1, "admin", "", true), 1);
    assert_int_equal(admission_count(a), 12);
}

TEST_IN(admission, a_privileged_place_gives_way_to_its_like_alone)
{
    make(4, 0, 0, false);
    assert_int_equal(fill(0, 4, "admin", "", true), 4);
    assert_int_equal(fill(4, 1, "k", "", false), 0);
    assert_int_equal(fill(5, 1, "admin 2", "", true), 1);
    assert_false(places[0].is_in);
}

TEST_IN(admission, a_place_that_cannot_be_admitted_evicts_none_in_vain)
{
    make(8, 2, 3, false);
    assert_int_equal(fill(0, 2, "large", "", false), 2);
    assert_int_equal(fill(2, 6, "admin", "", true), 6); /* an admin may use the reserve */
    assert_int_equal(fill(8, 1, "admin", "", true), 1); /* replaces one of the admin's own slots */
    enter_as(9, "late", "", 1, false);
    assert_int_equal(surplus(9), 9);
    admission_leave(a, &places[9]);
    assert_true(places[0].is_in && places[1].is_in);
}

TEST_IN(admission, when_full_the_oldest_of_the_largest_holder_goes)
{
    make(10, 0, 100, false);
    assert_int_equal(fill(0, 6, "large", "", false), 6);
    assert_int_equal(fill(6, 4, "small", "", false), 4);
    assert_int_equal(fill(10, 1, "new", "", false), 1);
    assert_false(places[0].is_in);
    assert_true(places[1].is_in && places[6].is_in);
    /* The key with the most slots evicts one of its own. */
    assert_int_equal(fill(11, 1, "large", "", false), 0);
    assert_true(places[1].is_in);
}

TEST_IN(admission, of_a_source_above_its_share_the_oldest_goes_whatever_room_there_is)
{
    make(100, 0, 3, true);
    for (size_t i = 0; i < 3; i++) {
        enter(i, "s");
        assert_int_equal(surplus(i), -1);
    }
    enter(3, "s");
    assert_int_equal(surplus(3), 0);
    admission_leave(a, &places[0]);
    assert_int_equal(surplus(3), -1);
}

TEST_IN(admission, above_the_capacity_the_busiest_source_loses_its_oldest)
{
    make(3, 0, 3, true);
    enter(0, "one");
    enter(1, "busy");
    enter(2, "busy");
    enter(3, "new");
    assert_int_equal(surplus(3), 1);
    admission_leave(a, &places[1]);
    assert_int_equal(surplus(3), -1);
    admission_resize(a, 2);
    assert_int_equal(surplus(3), 0); /* among equals, the oldest slot is evicted */
}

TEST_IN(admission, what_may_not_go_stays_and_the_newest_is_refused_for_it)
{
    make(100, 0, 50, true);
    for (size_t i = 0; i < 2; i++) {
        enter_as(i, "k", "", 25, false);
        stays[i] = true;
    }
    enter_as(2, "k", "", 25, false);
    assert_int_equal(surplus_that_may_go(2), 2);
    stays[1] = false;
    assert_int_equal(surplus_that_may_go(2), 1);
}

TEST_IN(admission, a_single_large_place_only_has_to_fit)
{
    make(100, 0, 0, true);
    enter_as(0, "k", "", 90, false);
    assert_int_equal(surplus(0), -1);
    enter_as(1, "l", "", 20, false);
    assert_int_equal(surplus(1), 0);
}

TEST_IN(admission, a_place_that_is_used_again_is_the_newest)
{
    make(2, 0, 2, true);
    enter(0, "k");
    enter(1, "k");
    admission_touch(&places[0]);
    enter(2, "k");
    assert_int_equal(surplus(2), 1);
}

TEST_IN(admission, leaving_twice_counts_once)
{
    make(10, 0, 0, false);
    enter(0, "k");
    enter(1, "k");
    admission_leave(a, &places[0]);
    admission_leave(a, &places[0]);
    assert_int_equal(admission_count(a), 1);
}

/* With any mix of ordinary keys beside one greedy key, every ordinary key gets a first slot. */
TEST_IN(admission, whoever_comes_late_finds_a_place)
{
    make(64, 4, 0, false);
    (void)fill(0, 300, "greedy", "greedy-*", false);
    for (size_t i = 0; i < 20; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "h%zu", i);
        assert_int_equal(fill(300 + 2 * i, 1, key, key, false), 1);
        (void)fill(400 + i, 1, "greedy", "greedy-*", false);
    }
}
