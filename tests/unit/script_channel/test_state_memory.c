/* tests/unit/script_channel/test_state_memory.c: shared memory for trainers, on a machine with a
 * simulated amount of memory. */
#include <dirent.h>
#include <sys/stat.h>

#include "agent/os/memory.h"
#include "agent/script_channel/state_memory.h"
#include "common/cli/log.h"
#include "tests/unit/fake_memory.h"
#include "tests/unit/folder.h"

#define UNIT (UINT64_C(64) << 10)

static void set_units_free(uint64_t units)
{
    fake_memory_set(100000 * (UNIT >> 10), units * (UNIT >> 10));
}

struct stage {
    struct event_base *base;
    struct state_memory *memory;
    int answers;
    uint32_t place; /* of the last call */
    int fd;
    uint64_t bytes;
    char reason[400];
};

static void on_answer(void *ctx, uint32_t place, int fd, uint64_t bytes, const char *reason)
{
    struct stage *s = ctx;
    s->answers++;
    s->place = place;
    s->fd = fd;
    s->bytes = bytes;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
}

static void begin(struct stage *s, uint64_t limit)
{
    *s = (struct stage){.base = event_base_new(), .fd = -1};
    set_units_free(100000);
    s->memory = state_memory_new(s->base, limit, on_answer, s);
}

static void end(struct stage *s)
{
    state_memory_free(s->memory);
    event_base_free(s->base);
}

/* Requests memory and runs the event loop until it is idle. Returns true if that many
 * bytes are available. */
static bool gets(struct stage *s, uint32_t place, uint64_t units)
{
    int before = s->answers;
    state_memory_request(s->memory, place, units * UNIT);
    event_base_dispatch(s->base);
    assert_int_equal(s->answers, before + 1);
    assert_int_equal(s->place, place);
    assert_int_equal(s->fd >= 0, s->reason[0] == '\0' && s->bytes > 0);
    return s->fd >= 0;
}

static size_t count_open(void)
{
    size_t n = 0;
    DIR *fds = opendir("/proc/self/fd");
    while (readdir(fds)) {
        n++;
    }
    closedir(fds);
    return n;
}

TEST(state_memory, of_all_places_together_is_at_most_what_somebody_has_set)
{
    struct stage s;
    begin(&s, 100 * UNIT);
    assert_true(gets(&s, 0, 60));
    assert_false(gets(&s, 1, 41));
    assert_non_null(strstr(s.reason, "--state-memory allows 6 MiB on this node"));
    assert_true(gets(&s, 1, 40));
    assert_true(gets(&s, 0, 60)); /* of which the trainer already has some */
    assert_false(gets(&s, 0, 61));
    assert_false(gets(&s, 2, 101)); /* also for a single trainer */
    end(&s);
}

TEST(state_memory, that_is_being_filled_counts_for_the_others)
{
    struct stage s;
    begin(&s, 100 * UNIT);
    state_memory_request(s.memory, 0, 60 * UNIT);
    assert_int_equal(s.answers, 0);
    state_memory_request(s.memory, 1, 41 * UNIT);
    assert_int_equal(s.answers, 1);
    assert_int_equal(s.fd, -1);
    event_base_dispatch(s.base);
    assert_int_equal(s.answers, 2);
    assert_int_equal(s.bytes, 60 * UNIT);
    end(&s);
}

TEST(state_memory, is_a_quarter_of_what_is_free_where_nobody_has_set_it)
{
    struct stage s;
    begin(&s, STATE_MEMORY_AUTO);
    set_units_free(400);
    assert_false(gets(&s, 0, 101));
    assert_non_null(strstr(s.reason, "of which it may take 6"));
    assert_true(gets(&s, 0, 100));
    /* Memory that is promised but not allocated yet is not free. */
    state_memory_request(s.memory, 1, 100 * UNIT);
    state_memory_request(s.memory, 2, 76 * UNIT);
    assert_int_equal(s.fd, -1);
    state_memory_request(s.memory, 2, 75 * UNIT);
    int answers = s.answers;
    event_base_dispatch(s.base);
    assert_int_equal(s.answers, answers + 2);
    assert_true(s.fd >= 0);
    set_units_free(10);
    state_memory_request(s.memory, 3, 2 * UNIT);
    state_memory_request(s.memory, 4, 3 * UNIT); /* less is free than was promised */
    assert_int_equal(s.place, 4);
    assert_int_equal(s.fd, -1);
    end(&s);
}

TEST(state_memory, that_somebody_has_set_still_leaves_a_quarter_of_what_is_free)
{
    struct stage s;
    begin(&s, 100000 * UNIT);
    set_units_free(400);
    assert_false(gets(&s, 0, 301));
    assert_true(gets(&s, 0, 300));
    end(&s);
    begin(&s, 0);
    assert_false(gets(&s, 0, 1));
    assert_string_equal(s.reason, "--state-memory=0");
    end(&s);
}

TEST(state_memory, asked_for_twice_is_filled_once)
{
    struct stage s;
    begin(&s, 100 * UNIT);
    state_memory_request(s.memory, 0, 50 * UNIT);
    state_memory_request(s.memory, 0, 50 * UNIT);
    state_memory_request(s.memory, 0, 40 * UNIT);
    event_base_dispatch(s.base);
    assert_int_equal(s.answers, 1);
    assert_int_equal(s.bytes, 50 * UNIT);
    end(&s);
}

TEST(state_memory, that_is_not_wanted_after_all_is_given_back)
{
    enum { LARGE = 640 }; /* 40 MiB, more than is allocated per event of the loop */
    struct stage s;
    struct stat st;
    size_t open_before = count_open();
    begin(&s, 1000 * UNIT);
    assert_true(gets(&s, 0, 50));
    size_t open_of_one = count_open();
    state_memory_request(s.memory, 0, LARGE * UNIT);
    event_base_loop(s.base, EVLOOP_ONCE);
    int answers = s.answers;
    state_memory_request(s.memory, 0, 10 * UNIT);
    assert_int_equal(s.answers, answers + 1);
    assert_int_equal(s.bytes, 50 * UNIT); /* the memory it already has */
    event_base_dispatch(s.base);
    assert_int_equal(s.answers, answers + 1);
    assert_int_equal(count_open(), open_of_one);
    assert_true(gets(&s, 1, 950)); /* nothing is reserved for it any more */
    /* After a restart everything is allocated anew, and the old memory is freed. */
    assert_true(gets(&s, 2, 0) == false);
    end(&s);
    begin(&s, 1000 * UNIT);
    state_memory_request(s.memory, 0, LARGE * UNIT);
    event_base_loop(s.base, EVLOOP_ONCE);
    state_memory_request(s.memory, 0, 0);
    assert_true(gets(&s, 0, LARGE));
    assert_int_equal(fstat(s.fd, &st), 0);
    assert_int_equal(st.st_size, LARGE * UNIT);
    assert_true((uint64_t)st.st_blocks * 512 >= LARGE * UNIT);
    size_t open_of_large = count_open();
    assert_true(gets(&s, 0, LARGE + 1));
    assert_int_equal(count_open(), open_of_large);
    end(&s);
    assert_int_equal(count_open(), open_before);
}

int main(void)
{
    log_init("unit", LOG_ERROR_, LOG_LOGFMT);
    return stories_run(NULL, NULL);
}
