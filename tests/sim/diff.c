/* tests/sim/diff.c: prints the difference of two traces, by their longest common subsequence. */
#include "tests/sim/diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AROUND 3

enum side { SIDE_BOTH = ' ', SIDE_EXPECTED = '-', SIDE_GOT = '+' };

struct out {
    enum side side;
    const char *line;
};

/* lengths[i][j] is the length of the longest common subsequence from i and j on. */
static uint32_t *measure(const struct scenario_lines *a, const struct scenario_lines *b)
{
    size_t row = b->n + 1;
    uint32_t *lengths = sim_alloc((a->n + 1) * row, sizeof(*lengths));
    for (size_t i = a->n; i-- > 0;) {
        for (size_t j = b->n; j-- > 0;) {
            uint32_t down = lengths[(i + 1) * row + j];
            uint32_t right = lengths[i * row + j + 1];
            lengths[i * row + j] = strcmp(a->v[i], b->v[j]) == 0
                                       ? 1 + lengths[(i + 1) * row + j + 1]
                                   : down > right ? down
                                                  : right;
        }
    }
    return lengths;
}

static void print(const struct out *v, size_t n)
{
    size_t printed = 0;
    for (size_t i = 0; i < n; i++) {
        bool near = false;
        for (size_t k = i < AROUND ? 0 : i - AROUND; k < n && k <= i + AROUND; k++) {
            near = near || v[k].side != SIDE_BOTH;
        }
        if (near) {
            if (printed < i) {
                printf("  …\n");
            }
            printf("%c %s\n", v[i].side, v[i].line);
            printed = i + 1;
        }
    }
}

size_t diff_print(const struct scenario_lines *expected, const struct scenario_lines *got)
{
    uint32_t *lengths = measure(expected, got);
    struct out *v = sim_alloc(expected->n + got->n, sizeof(*v));
    size_t n = 0;
    size_t differ = 0;
    size_t i = 0;
    size_t j = 0;
    size_t row = got->n + 1;
    while (i < expected->n || j < got->n) {
        if (i < expected->n && j < got->n && strcmp(expected->v[i], got->v[j]) == 0) {
            v[n++] = (struct out){SIDE_BOTH, expected->v[i++]};
            j++;
        } else if (j == got->n ||
                   (i < expected->n && lengths[(i + 1) * row + j] >= lengths[i * row + j + 1])) {
            v[n++] = (struct out){SIDE_EXPECTED, expected->v[i++]};
            differ++;
        } else {
            v[n++] = (struct out){SIDE_GOT, got->v[j++]};
            differ++;
        }
    }
    print(v, n);
    free(lengths);
    free(v);
    return differ;
}
