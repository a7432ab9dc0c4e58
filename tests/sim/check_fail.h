/* tests/sim/check_fail.h: reports violations of rules, for check.c and check_verdicts.c. */
#ifndef TFE_TESTS_SIM_CHECK_FAIL_H
#define TFE_TESTS_SIM_CHECK_FAIL_H

#include "tests/sim/check.h"

/* Reports a violation of the rule. Ignored while the rule is off or after an earlier violation. */
__attribute__((format(printf, 3, 4))) void check_fail(struct check *c, enum check_rule rule,
                                                      const char *format, ...);

#endif
