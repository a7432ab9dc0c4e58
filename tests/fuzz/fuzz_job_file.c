/* tests/fuzz/fuzz_job_file.c: an accepted job has a canonical text within its bound, which is its
 * own canonical text. Any text of a peer is accepted as a whole or refused with a sentence. */
#include <stdlib.h>
#include <string.h>

#include "common/job/job_file.h"
#include "server/ctl/jobs/job_text.h"
#include "tests/fuzz/fuzz.h"

/* NULL: refused, with a sentence. The caller frees it. */
static char *canonical(const char *text, size_t n)
{
    struct tfe_reason reason = {""};
    json_t *job = NULL;
    if (job_text_read(text, n, &job, &reason) != 0) {
        MUST(!job && *reason.text);
        return NULL;
    }
    char *out = job_file_format(job);
    json_decref(job);
    MUST(out && strlen(out) <= MSG_SPEC_MAX);
    return out;
}

/* A peer's text, of SUBMIT or ASSIGN. */
static void parse(const char *text)
{
    struct tfe_reason reason = {""};
    json_t *job = NULL;
    const int rc = job_file_parse(text, &job, &reason);
    MUST(rc == 0 ? job && json_is_string(json_object_get(job, "name")) : !job && *reason.text);
    json_decref(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *given = strndup((const char *)data, size);
    MUST(given);
    parse(given);
    free(given);
    char *first = canonical((const char *)data, size);
    if (first) {
        char *second = canonical(first, strlen(first));
        parse(first);
        MUST(second && strcmp(first, second) == 0);
        free(second);
    }
    free(first);
    return 0;
}
