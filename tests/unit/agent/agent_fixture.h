/* tests/unit/agent/agent_fixture.h: an event loop with a guard on it, and ways to wait for what
 * really happened. */
#ifndef TFE_TESTS_UNIT_AGENT_AGENT_FIXTURE_H
#define TFE_TESTS_UNIT_AGENT_AGENT_FIXTURE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/guard_link.h"
#include "tests/unit/test_runner.h"

/* Nothing here takes a second; a machine that needs this long has a bug. */
#define RIG_PATIENCE_MS 30000

struct rig_slot {
    int spawned; /* how often each was told */
    int failed;
    int exited;
    int warm;
    int cold;
    char reason[200];
    pid_t pid;
    int error;
    int status;
};

struct rig {
    struct event_base *base;
    struct guard_link *link;
    pid_t guard;
    int pair; /* the link's descriptor: to look at, not to use */
    struct rig_slot slots[GUARD_SLOTS];
    int swept; /* answers that nothing is left */
    int stuck_told;
    pid_t stuck;
    int fenced;
    int lost;
    int out[2];     /* stdout of what rig_run starts: read here, line by line */
    char order[32]; /* one letter per event, in the order they came */
    size_t n_order;
};

void rig_init(struct rig *rig);
/* Closes the link, waits for the guard, and sees that it left nothing. */
void rig_done(struct rig *rig);

/* Turns the loop once, for some milliseconds at most. */
void rig_turn(struct rig *rig);

/* Milliseconds on a steady clock. */
int64_t rig_ms(void);

/* Turns the loop until condition holds; fails the test if it never does. */
#define RIG_UNTIL(rig, condition)                                                                  \
    do {                                                                                           \
        int64_t rig_give_up = rig_ms() + RIG_PATIENCE_MS;                                          \
        while (!(condition)) {                                                                     \
            if (rig_ms() > rig_give_up) {                                                          \
                fail_msg("never came true: %s", #condition);                                       \
            }                                                                                      \
            rig_turn(rig);                                                                         \
        }                                                                                          \
    } while (0)

/* Starts argv in slot with this process's environment, stdout into rig->out, stderr here. */
int rig_run(struct rig *rig, uint32_t slot, const char *const *argv);
#define RIG_RUN(rig, slot, ...)                                                                    \
    assert_int_equal(rig_run((rig), (slot), (const char *const[]){__VA_ARGS__, NULL}), 0)

/* The next line of rig->out, without newline. */
void rig_line(struct rig *rig, char *ret, size_t cap);
/* The next line, as a process id. */
pid_t rig_pid(struct rig *rig);

/* Whether the process is no more, or only waits to be reaped. */
bool rig_is_gone(pid_t pid);
/* Whether /proc says that the process is in this state ('T', 'S', …). */
bool rig_has_state(pid_t pid, char state);

#endif
