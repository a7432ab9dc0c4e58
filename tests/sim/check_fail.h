/* tests/sim/check_fail.h: how check.c and check_verdicts.c say that a rule does not hold. */
#ifndef TFE_TESTS_SIM_CHECK_FAIL_H
#define TFE_TESTS_SIM_CHECK_FAIL_H

#include "tests/sim/check.h"

/* A violation of this rule, in words; ignored while the rule is off, or once there is another one.
 */
__attribute__((format(printf, 3, 4))) void check_fail(struct check *c, enum check_rule rule,
                                                      const char *format, ...);

#endif
