/* tests/unit/story.h: cmocka in the form this house writes tests: TEST(lease,
 * renewal_after_expiry_is_refused). */
#ifndef TFE_TESTS_UNIT_STORY_H
#define TFE_TESTS_UNIT_STORY_H

/* cmocka wants these four before its own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define TEST(room, story) static void room##__##story(void **state)
#define STORY(room, story) cmocka_unit_test(room##__##story)
/* First line of a TEST that has no fixture. */
#define NO_FIXTURE ((void)state)

#endif
