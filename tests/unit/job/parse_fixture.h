/* tests/unit/job/parse_fixture.h: what a text gives, or how it is refused. */
#ifndef TFE_TESTS_UNIT_JOB_PARSE_FIXTURE_H
#define TFE_TESTS_UNIT_JOB_PARSE_FIXTURE_H

#include <jansson.h>
#include <stdbool.h>

/* The canonical form; fails the story where text is refused. Ends with the program's next reading.
 */
const json_t *reads(const char *text);
/* … and its warning, "" if none. */
const char *reading_warned(void);

/* Whether text is refused with a sentence that has part in it; prints what came instead. */
bool is_refused(const char *text, const char *part);

/* Whether job's field is this JSON ('single' quotes will do). */
bool has(const json_t *job, const char *field, const char *json);

/* Ends what reads gave. */
void reading_done(void);

#endif
