/* tests/sim/sim_run.c: runs scenario files: prints the trace, compares it, or accepts it. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/diff.h"
#include "tests/sim/scenario.h"

enum mode { MODE_PRINT, MODE_CHECK, MODE_ACCEPT };

static int run(const char *path, enum mode mode)
{
    struct scenario s;
    int rc = 1;
    if (scenario_load(&s, path) || scenario_run(&s, path, false)) {
        scenario_done(&s);
        return 2;
    }
    switch (mode) {
    case MODE_PRINT:
        for (size_t i = 0; i < s.got.n; i++) {
            printf("%s\n", s.got.v[i]);
        }
        rc = s.violated;
        break;
    case MODE_CHECK:
        rc = diff_print(&s.expected, &s.got) > 0 || s.violated;
        printf("%s: %s\n", path, rc ? "differs from what is expected (- expected, + got)" : "ok");
        break;
    case MODE_ACCEPT:
        rc = s.violated ? 1 : scenario_accept(&s, path) != 0;
        printf("%s: %s\n", path,
               s.violated ? "an invariant is broken, not accepted" : "accepted, read it");
        break;
    }
    scenario_done(&s);
    return rc;
}

int main(int argc, char **argv)
{
    enum mode mode = MODE_PRINT;
    int worst = 0;
    int first = 1;
    if (argc > 1 && strcmp(argv[1], "--check") == 0) {
        mode = MODE_CHECK;
        first = 2;
    } else if (argc > 1 && strcmp(argv[1], "--accept") == 0) {
        mode = MODE_ACCEPT;
        first = 2;
    }
    if (first >= argc || argv[first][0] == '-') {
        fputs("usage: sim_run [--check | --accept] FILE…\n", stderr);
        return 2;
    }
    for (int i = first; i < argc; i++) {
        int rc = run(argv[i], mode);
        worst = rc > worst ? rc : worst;
    }
    return worst;
}
