/* common/job/job_file.h: reads job files. A job file is a JSON object whose fields are defined in
 * one table and described by docs/job-file.schema.json. Its canonical form has every field, with
 * its default or null if absent, and is a valid job file itself.
 *
 * SUBMIT, ASSIGN and the store carry a job as the text of its canonical form. */
#ifndef TFE_COMMON_JOB_JOB_FILE_H
#define TFE_COMMON_JOB_JOB_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/submission.h"
#include "common/text/reason.h"

/* Validates a job file and returns its canonical form, owned by the caller. Returns TFE_EINVAL with
 * a reason that names the field ("workers.min: ..."), or TFE_ENOMEM. */
int job_file_read(const json_t *tree, json_t **ret, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Formats a canonical job as text: compact, keys sorted. The caller frees it; NULL if out of
 * memory. */
char *job_file_format(const json_t *job);

/* Reads the text of a job that is ready to run: it has a name, and its files are a path, a bundle
 * named by digest, or a whole commit. Accepts any text of a peer. Returns errors as job_file_read.
 */
int job_file_parse(const char *text, json_t **ret, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Sets warning to what the user of a canonical job should know: one sentence, or "". */
void job_file_warn(const json_t *job, struct tfe_reason *warning);

/* Returns the enum tfe_task of a role's name ("ps"), or -1 if there is none. */
int job_file_role(const char *name);

/* Returns the text of a field of a job, or NULL if it has none. */
static inline const char *job_text(const json_t *job, const char *field)
{
    return json_string_value(json_object_get(job, field));
}

/* Returns the number of a field of a job, or `absent` if it has none. */
static inline uint32_t job_number(const json_t *job, const char *field, uint32_t absent)
{
    const json_t *value = json_object_get(job, field);
    return json_is_integer(value) ? (uint32_t)json_integer_value(value) : absent;
}

/* True if a flag of a job is set. */
static inline bool job_flag(const json_t *job, const char *field)
{
    return json_is_true(json_object_get(job, field));
}

/* Returns the member ("path", "bundle", "git" or "ref") of a job's source, or NULL. */
static inline const char *job_source(const json_t *job, const char *member)
{
    return job_text(json_object_get(job, "source"), member);
}

#endif
