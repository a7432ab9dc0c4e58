/* tests/unit/job/parse_fixture.h: parses a job file for a test and checks the result. */
#ifndef TFE_TESTS_UNIT_JOB_PARSE_FIXTURE_H
#define TFE_TESTS_UNIT_JOB_PARSE_FIXTURE_H

#include <jansson.h>
#include <stdbool.h>

/* Returns the canonical form, valid until the next call; fails the test if the text is refused. */
const json_t *reads(const char *text);
/* Returns the warning of the last reads, or "" if none. */
const char *reading_warned(void);

/* Returns true if the text is refused with a sentence that contains part; else prints the result.
 */
bool is_refused(const char *text, const char *part);

/* Returns true if the job's field equals this JSON ('single quotes' are accepted). */
bool has(const json_t *job, const char *field, const char *json);

/* Frees the result of reads. */
void reading_done(void);

#endif
