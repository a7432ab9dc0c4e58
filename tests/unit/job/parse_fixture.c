/* tests/unit/job/parse_fixture.c: see parse_fixture.h. */
#include "tests/unit/job/parse_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "common/job/job_file.h"
#include "server/ctl/jobs/job_text.h"
#include "tests/unit/test_runner.h"

static json_t *last;
static struct tfe_reason warned;

void reading_done(void)
{
    json_decref(last);
    last = NULL;
}

const json_t *reads(const char *text)
{
    struct tfe_reason reason = {""};
    reading_done();
    if (job_text_read(text, strlen(text), &last, &reason)) {
        print_message("refused: %s\n", reason.text);
        fail();
    }
    job_file_warn(last, &warned);
    return last;
}

const char *reading_warned(void)
{
    return warned.text;
}

bool is_refused(const char *text, const char *part)
{
    struct tfe_reason reason = {""};
    json_t *job = NULL;
    if (job_text_read(text, strlen(text), &job, &reason) == 0) {
        print_message("not refused, for: %s\n", part);
        json_decref(job);
        return false;
    }
    assert_null(job);
    if (!strstr(reason.text, part)) {
        print_message("refused: %s\n     for: %s\n", reason.text, part);
        return false;
    }
    return true;
}

bool has(const json_t *job, const char *field, const char *json)
{
    char text[1024];
    size_t n = strlen(json);
    assert_true(n < sizeof(text));
    for (size_t i = 0; i <= n; i++) {
        text[i] = (char)(json[i] == '\'' ? '"' : json[i]);
    }
    json_t *wanted = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(wanted);
    bool is_equal = json_equal(json_object_get(job, field), wanted) == 1;
    if (!is_equal) {
        char *found = json_dumps(json_object_get(job, field), JSON_ENCODE_ANY);
        print_message("%s: %s, and not %s\n", field, found ? found : "nothing", text);
        free(found);
    }
    json_decref(wanted);
    return is_equal;
}
