/* tests/fuzz/fuzz_http_answer.c: answers of metadata services come to the same in whatever
 * portions. The first byte is the size of one. */
#include <string.h>

#include "common/net/http_answer.h"
#include "tests/fuzz/fuzz.h"

static int take(struct http_answer *answer, const char *bytes, size_t n, size_t portion)
{
    struct tfe_why why;
    http_answer_init(answer);
    int rc = TFE_EMORE;
    for (size_t at = 0; at < n && rc == TFE_EMORE; at += portion) {
        rc = http_answer_feed(answer, bytes + at, n - at < portion ? n - at : portion, &why);
    }
    return rc == TFE_EMORE ? http_answer_end(answer, &why) : rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_answer whole;
    static struct http_answer parts;
    if (size < 1) {
        return 0;
    }
    const char *bytes = (const char *)data + 1;
    int rc = take(&whole, bytes, size - 1, size);
    MUST((take(&parts, bytes, size - 1, (size_t)data[0] + 1) == 0) == (rc == 0));
    if (rc == 0) {
        MUST(whole.status == parts.status && whole.body_n == parts.body_n &&
             whole.body_n <= HTTP_BODY_MAX);
        MUST(whole.body_n == 0 || memcmp(whole.body, parts.body, whole.body_n + 1) == 0);
        const char *length = http_answer_header(&whole, "content-length");
        MUST(!length || strlen(length) < HTTP_HEAD_MAX);
    }
    http_answer_done(&whole);
    http_answer_done(&parts);
    return 0;
}
