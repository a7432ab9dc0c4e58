/* tests/fuzz/fuzz_job_file.c: whatever is taken for a job has a canonical form within its bound,
 * and that is its own canonical form. */
#include <stdlib.h>
#include <string.h>

#include "common/message/submission.h"
#include "server/ctl/jobs/job_text.h"
#include "tests/fuzz/fuzz.h"

/* NULL: refused, with a sentence. The caller frees it. */
static char *canonical(const char *text, size_t n)
{
    struct tfe_reason reason = {""};
    struct tfe_reason warning;
    json_t *job = NULL;
    if (job_text_read(text, n, &job, &warning, &reason) != 0) {
        MUST(!job && *reason.text);
        return NULL;
    }
    char *out = json_dumps(job, JSON_COMPACT);
    json_decref(job);
    MUST(out && strlen(out) <= MSG_SPEC_MAX);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *first = canonical((const char *)data, size);
    if (first) {
        char *second = canonical(first, strlen(first));
        MUST(second && strcmp(first, second) == 0);
        free(second);
    }
    free(first);
    return 0;
}
