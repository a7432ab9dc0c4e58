/* agent/output/output_tail.c: a ring of the last bytes. */
#include "agent/output/output_tail.h"

#include <string.h>

static void ring_put(struct tail *tail, const char *bytes, size_t n)
{
    size_t size = sizeof tail->ring;
    if (n > size) {
        tail->written += n - size;
        bytes += n - size;
        n = size;
    }
    size_t at = (size_t)(tail->written % size);
    size_t first = n < size - at ? n : size - at;
    memcpy(tail->ring + at, bytes, first);
    memcpy(tail->ring, bytes + first, n - first);
    tail->written += n;
}

void tail_add(struct tail *tail, const char *line, size_t n)
{
    ring_put(tail, line, n);
    ring_put(tail, "\n", 1);
}

static char ring_at(const struct tail *tail, uint64_t at)
{
    return tail->ring[at % sizeof tail->ring];
}

/* The end of the ring is the newline of the last line; it is not part of the tail. */
void tail_make(const struct tail *tail, char ret[MSG_TAIL_MAX])
{
    ret[0] = '\0';
    if (tail->written == 0) {
        return;
    }
    uint64_t end = tail->written - 1;
    uint64_t oldest = tail->written > sizeof tail->ring ? tail->written - sizeof tail->ring : 0;
    uint64_t start = end;
    int newlines = 0;
    while (start > oldest) {
        newlines += ring_at(tail, start - 1) == '\n';
        if (newlines == TAIL_LINES) {
            break;
        }
        start--;
    }
    /* A line that had to be cut starts with a whole character at least (UTF-8, RFC 3629). */
    while (start == oldest && oldest != 0 && start < end &&
           ((unsigned char)ring_at(tail, start) & 0xC0) == 0x80) {
        start++;
        oldest++;
    }
    size_t n = 0;
    for (uint64_t at = start; at < end; at++) {
        unsigned char c = (unsigned char)ring_at(tail, at);
        ret[n++] = c == '\n' || (c >= ' ' && c != 0x7F) ? (char)c : ' ';
    }
    ret[n] = '\0';
}
