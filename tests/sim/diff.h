/* tests/sim/diff.h: what two lists of lines have in common, and what not, for people. */
#ifndef TFE_TESTS_SIM_DIFF_H
#define TFE_TESTS_SIM_DIFF_H

#include "tests/sim/scenario.h"

/* Prints `- expected` and `+ got` lines with some lines around them. Returns how many differ. */
size_t diff_print(const struct scenario_lines *expected, const struct scenario_lines *got);

#endif
