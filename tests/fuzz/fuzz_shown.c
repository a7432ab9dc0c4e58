/* tests/fuzz/fuzz_shown.c: what trainers print, as a terminal shows it: nothing that is shown
 * controls anything, and it fits. */
#include <stdlib.h>
#include <string.h>

#include "common/text/escape.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *room = malloc(ESCAPE_LINE_MAX(size) + 1);
    MUST(room);
    const size_t n = escape_line((const char *)data, size, room);
    MUST(n <= ESCAPE_LINE_MAX(size));
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)room[i];
        MUST((c >= 0x20 && c != 0x7f) || c == '\t');
        MUST(c != 0xc2 || i + 1 == n || (unsigned char)room[i + 1] >= 0xa0); /* no C1 */
    }
    free(room);
    return 0;
}
