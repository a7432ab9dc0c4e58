/* tests/sim/diff.h: prints the differences of two lists of lines. */
#ifndef TFE_TESTS_SIM_DIFF_H
#define TFE_TESTS_SIM_DIFF_H

#include "tests/sim/scenario.h"

/* Prints `- expected` and `+ got` lines with context. Returns how many lines differ. */
size_t diff_print(const struct scenario_lines *expected, const struct scenario_lines *got);

#endif
