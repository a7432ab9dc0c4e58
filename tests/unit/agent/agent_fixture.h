/* tests/unit/agent/agent_fixture.h: an event loop with a real guard, and functions that wait for
 * events and processes. */
#ifndef TFE_TESTS_UNIT_AGENT_AGENT_FIXTURE_H
#define TFE_TESTS_UNIT_AGENT_AGENT_FIXTURE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/guard_link.h"
#include "tests/unit/folder.h"
#include "tests/unit/test_runner.h"

/* Timeout: no test takes a second, so a machine that needs this long has a bug. */
#define RIG_PATIENCE_MS 30000

struct rig_slot {
    int spawned; /* number of events by type */
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
    int pair; /* the link's descriptor, for inspection only */
    struct rig_slot slots[GUARD_SLOTS];
    int swept; /* sweeps that reported that no process is left */
    int stuck_told;
    pid_t stuck;
    int fenced;
    int lost;
    int out[2];     /* pipe with the stdout of processes started by rig_run */
    char order[32]; /* one letter per event, in the order they came */
    size_t n_order;
};

void rig_init(struct rig *rig);
/* Closes the link, waits for the guard, and checks that it left nothing. */
void rig_done(struct rig *rig);

/* The same as fixture functions of cmocka; *state is the rig. */
int rig_setup(void **state);
int rig_teardown(void **state);

/* Runs the event loop once, for at most some milliseconds. */
void rig_turn(struct rig *rig);

/* Returns milliseconds on a monotonic clock. */
int64_t rig_ms(void);

/* Runs the event loop until the condition is true; fails the test on timeout. */
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

/* Starts argv in a slot with this process's environment and stderr; stdout is rig->out. */
int rig_run(struct rig *rig, uint32_t slot, const char *const *argv);
#define RIG_RUN(rig, slot, ...)                                                                    \
    assert_int_equal(rig_run((rig), (slot), (const char *const[]){__VA_ARGS__, NULL}), 0)

/* Reads the next line of rig->out, without newline. */
void rig_line(struct rig *rig, char *ret, size_t cap);
/* Reads the next line as a process id. */
pid_t rig_pid(struct rig *rig);

/* Returns true if the process does not exist, or is a zombie. */
bool rig_is_gone(pid_t pid);
/* Returns true if /proc shows this state of the process ('T', 'S', ...). */
bool rig_has_state(pid_t pid, char state);

/* Returns how many descriptors the process has open. */
int rig_count_descriptors(pid_t pid);

/* Starts a shell in place of a standby's interpreter; the script sends its messages on
 * descriptor 3. */
void rig_start_standby(struct rig *rig, const char *script, bool background);

/* Makes a set-user-ID copy of this program in a new folder. Returns false if that is not possible
 * here. */
bool rig_root_helper(char folder[FOLDER_BYTES], char *ret, size_t cap);
/* Main function of that copy: prints its pid as root, and waits. */
int rig_become_root(void);

#endif
