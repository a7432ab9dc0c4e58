/* tests/unit/test_runner.h: cmocka in the form this house writes tests. A program's stories are
 * those that its file tells, in their order; each is named once:
 *
 *     TEST(lease, renewal_after_expiry_is_refused)
 *     {
 *         …
 *     }
 */
#ifndef TFE_TESTS_UNIT_TEST_RUNNER_H
#define TFE_TESTS_UNIT_TEST_RUNNER_H

/* cmocka wants these four before its own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define TEST(room, story) STORY_TOLD(room, story, NULL, NULL)
/* … with what the file has named before by `#define FIXTURE set_up, tear_down`. */
#define TEST_IN(room, story) STORY_EXPANDED(room, story, FIXTURE)

#define STORY_EXPANDED(...) STORY_TOLD(__VA_ARGS__)
#define STORY_TOLD(room, story, before, after)                                                     \
    static void room##__##story(void **state);                                                     \
    STORY(told, room##__##story, before, after)                                                    \
    static void room##__##story(void **state __attribute__((unused)))

/* A function that is a story: it runs between before and after. One may be several, with tags. */
#define STORY(tag, run, before, after)                                                             \
    __attribute__((constructor)) static void run##_##tag(void)                                     \
    {                                                                                              \
        story_add(__LINE__, (struct CMUnitTest){#run, run, before, after, NULL});                  \
    }

void story_add(int line, struct CMUnitTest story);

/* Runs all stories between before and after: for a file with a main of its own. */
int stories_run(CMFixtureFunction before, CMFixtureFunction after);

/* Ends a TEST that this machine or build cannot judge, and says why (a noun or a sentence without a
 * point): ctest counts it as passed, scripts/test.sh names it at its end. */
#define SKIP(reason)                                                                               \
    do {                                                                                           \
        print_message("SKIPPED %s: %s\n", __func__, (reason));                                     \
        skip();                                                                                    \
    } while (0)

#endif
