/* tests/fuzz/fuzz_script_line.c: patterns of jobs and lines of trainers. The text up to the first
 * newline is the pattern; each further line is matched. */
#include <stdlib.h>
#include <string.h>

#include "agent/script_channel/script_line.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = size > 0 ? memchr(text, '\n', size) : NULL;
    char *pattern = end ? strndup(text, (size_t)(end - text)) : NULL;
    struct script_line *s;
    struct tfe_reason reason;
    if (pattern && script_line_new(pattern, &s, &reason) == 0) {
        const char *line = end + 1;
        while (line < text + size) {
            const size_t left = (size_t)(text + size - line);
            const char *stop = memchr(line, '\n', left);
            const size_t n = stop ? (size_t)(stop - line) : left;
            struct script_message told;
            if (script_line_read(s, line, n, &told)) {
                MUST(told.type == SCRIPT_PROGRESS && told.metrics.n <= SCRIPT_METRICS_MAX);
            }
            line += n + 1;
        }
        script_line_free(s);
    }
    free(pattern);
    return 0;
}
