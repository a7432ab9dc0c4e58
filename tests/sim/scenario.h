/* tests/sim/scenario.h: a short text in, a trace with virtual times out.
 *
 *   # why this scenario is there
 *   config ttl=10s fence=60s
 *   job default nnodes=1:4 start=2s
 *   at 0s join a b c
 *   at 20s kill node b
 *   run 60s
 *   ---
 *   the expected trace
 *
 * scenario_commands.c lists the commands. */
#ifndef TFE_TESTS_SIM_SCENARIO_H
#define TFE_TESTS_SIM_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/sim/scenario_words.h"
#include "tests/sim/world.h"

struct scenario_lines {
    char **v;
    size_t n;
    size_t cap;
};
void lines_add(struct scenario_lines *lines, const char *text, size_t n);
void lines_done(struct scenario_lines *lines);

struct scenario {
    char *text; /* the commands as in the file */
    size_t text_n;
    struct scenario_lines expected;
    struct scenario_lines got;
    bool violated; /* an invariant was violated; the last line of got says which */
};

/* Loads a scenario. Returns 0, or -1 after printing why the file or a command cannot be read. */
int scenario_load(struct scenario *s, const char *path);
int scenario_run(struct scenario *s, const char *path, bool verbose);
/* Writes the commands and the actual trace to the file. */
int scenario_accept(const struct scenario *s, const char *path);
void scenario_done(struct scenario *s);

/* --- between scenario.c and scenario_commands.c --- */

struct scenario_world {
    struct world world;
    const char *path;
    int64_t run_ms;
    bool is_wrong;       /* a command turned out to be invalid when its time came */
    struct words *lines; /* lines of commands */
    size_t n_lines, cap_lines;
    struct scenario_lines names; /* names of the machines */
    struct scenario_lines shown; /* patterns of `show` and `hide`; later ones take precedence */
    struct scenario_lines hidden;
};

/* First pass: machines. Second pass: settings, jobs, and an event for each `at`. Returns -1 after
 * printing why. */
int commands_collect(struct scenario_world *sw, struct words *words);
int commands_set_up(struct scenario_world *sw, size_t line);

#endif
