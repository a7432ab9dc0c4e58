/* tests/unit/server/test_half_open.c: who makes room among those that have shown no token. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "server/half_open.h"
#include "tests/unit/story.h"

#define PER_SOURCE 3
#define PLACES 16

static struct half_open *h;
static struct half_open_place places[PLACES];

static int begin(void **state)
{
    (void)state;
    memset(places, 0, sizeof places);
    return half_open_new(PER_SOURCE, &h);
}

static int end(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLACES; i++) {
        half_open_leave(h, &places[i]);
    }
    assert_int_equal(half_open_count(h), 0);
    half_open_free(h);
    return 0;
}

#define FIXTURE begin, end

/* The place's number stands for its session. */
static struct session *session_of(size_t i)
{
    return (struct session *)(void *)&places[i];
}

static void enter(size_t i, uint32_t host)
{
    const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
    struct peer peer;
    peer_set(&peer, (const struct sockaddr *)&from, sizeof from);
    places[i].session = session_of(i);
    assert_int_equal(half_open_enter(h, &peer, &places[i]), 0);
}

static struct session *surplus(size_t newest, uint32_t room)
{
    return half_open_surplus(h, &places[newest], room);
}

TEST_IN(half_open, of_a_source_above_its_share_the_oldest_goes_whatever_room_there_is)
{
    for (size_t i = 0; i < PER_SOURCE; i++) {
        enter(i, 1);
        assert_null(surplus(i, 100));
    }
    enter(3, 1);
    assert_ptr_equal(surplus(3, 100), session_of(0));
    half_open_leave(h, &places[0]);
    assert_null(surplus(3, 100));
}

TEST_IN(half_open, above_the_room_of_all_the_busiest_source_loses_its_oldest)
{
    enter(0, 1);
    enter(1, 2);
    enter(2, 2);
    enter(3, 3);
    assert_null(surplus(3, 4));
    assert_ptr_equal(surplus(3, 3), session_of(1)); /* not the newest's, nor the oldest of all */
    half_open_leave(h, &places[1]);
    assert_null(surplus(3, 3));
    assert_non_null(surplus(3, 2)); /* of three that have one each */
}

TEST_IN(half_open, the_busiest_is_known_again_when_it_is_so_no_more)
{
    for (size_t i = 0; i < PER_SOURCE; i++) {
        enter(i, 1);
    }
    enter(3, 2);
    enter(4, 2);
    for (size_t i = 0; i < PER_SOURCE; i++) {
        half_open_leave(h, &places[i]);
    }
    assert_ptr_equal(surplus(4, 1), session_of(3));
    half_open_leave(h, &places[3]);
    half_open_leave(h, &places[3]); /* once more changes nothing */
    assert_int_equal(half_open_count(h), 1);
    assert_ptr_equal(surplus(4, 0), session_of(4));
    half_open_leave(h, &places[4]);
    enter(5, 2);
    assert_null(surplus(5, 1));
}

TEST_IN(half_open, who_has_shown_a_token_counts_no_more_and_is_not_put_out)
{
    enter(0, 1);
    enter(1, 1);
    half_open_leave(h, &places[1]);
    assert_ptr_equal(surplus(1, 0), session_of(0)); /* for its sake another one goes */
}
