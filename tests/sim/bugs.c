/* tests/sim/bugs.c: choosing one of the deliberate bugs. */
#include "tests/sim/bugs.h"

#include <stdio.h>
#include <string.h>

enum sim_bug sim_bug_on;

static const struct {
    const char *name;
    const char *sentence;
} bugs[SIM_BUG__COUNT] = {
#define SIM_BUG_ROW(name, sentence) [SIM_BUG_##name] = {#name, sentence},
    SIM_BUGS(SIM_BUG_ROW)
#undef SIM_BUG_ROW
};

int bugs_choose(const char *name)
{
    for (int i = 1; i < SIM_BUG__COUNT; i++) {
        if (strcmp(bugs[i].name, name) == 0) {
            sim_bug_on = (enum sim_bug)i;
            return 0;
        }
    }
    return -1;
}

void bugs_print(void)
{
    for (int i = 1; i < SIM_BUG__COUNT; i++) {
        printf("%s\t%s\n", bugs[i].name, bugs[i].sentence);
    }
}
