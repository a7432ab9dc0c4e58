/* tests/fuzz/fuzz_http_parse.c: http_parse.c: the result does not depend on how the input is split,
 * and accepted requests satisfy RFC 9112. First byte: number of bytes at a time, 0 for all; highest
 * bit: a chunked body, otherwise a head. */
#include <string.h>

#include "server/web/http_parse.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_MAX 16384

static long find_end(const char *text, size_t n, size_t each)
{
    size_t scanned = 0;
    for (size_t at = each < n ? each : n;; at = at + each < n ? at + each : n) {
        const long end = http_head_end(text, at, &scanned);
        MUST(end <= (long)at);
        if (end != 0 || at == n) {
            return end;
        }
    }
}

static void check_head(const struct http_head *head, const char *text, size_t n)
{
    MUST(head->path >= text && head->path < text + n && head->path[0] == '/');
    MUST(!head->is_chunked || (!head->has_length && head->length == 0 && !head->is_1_0));
    MUST(head->has_length || head->length == 0);
    MUST(head->is_1_0 || http_head_field(head, "Host"));
    MUST(head->n_fields <= HTTP_FIELDS_MAX);
    for (size_t i = 0; i < head->n_fields; i++) {
        const char *value = head->fields[i].value;
        MUST(head->fields[i].name[0] != '\0' && !strpbrk(head->fields[i].name, " \t:()"));
        MUST(!strpbrk(value, "\r\n") && value + strlen(value) < text + n);
    }
}

static void read_head(const uint8_t *data, size_t size, size_t each)
{
    static char text[INPUT_MAX + 1];
    struct http_head head;
    const char *reason = NULL;
    memcpy(text, data, size);
    const long end = find_end(text, size, size > 0 ? size : 1);
    MUST(find_end(text, size, each) == end);
    if (end <= 0) {
        return;
    }
    const int rc = http_head_parse(text, (size_t)end, &head, &reason);
    MUST((rc == 0) == !reason && (rc == 0 || rc == TFE_EINVAL));
    if (rc == 0) {
        check_head(&head, text, (size_t)end);
    }
}

/* Returns the number of bytes used, or an error. *ret_sum: checksum of the body. */
static long read_chunks(const uint8_t *data, size_t size, size_t each, uint32_t *ret_sum)
{
    struct http_chunks chunks = {.state = 0};
    size_t at = 0;
    *ret_sum = 0;
    while (at < size && !chunks.is_over) {
        const size_t some = size - at < each ? size - at : each;
        size_t n;
        const long used = http_chunks_read(&chunks, data + at, some, &n);
        if (used < 0) {
            return used;
        }
        MUST(used > 0 && (size_t)used <= some && n <= (size_t)used);
        at += (size_t)used;
        for (size_t i = at - n; i < at; i++) {
            *ret_sum = *ret_sum * 31 + data[i] + 1;
        }
    }
    return chunks.is_over ? (long)at : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > INPUT_MAX) {
        return 0;
    }
    const size_t each = (data[0] & 0x7f) > 0 ? data[0] & 0x7f : size;
    if (data[0] & 0x80) {
        uint32_t whole;
        uint32_t cut;
        const long end = read_chunks(data + 1, size - 1, size, &whole);
        MUST(read_chunks(data + 1, size - 1, each, &cut) == end);
        MUST(end <= 0 || whole == cut);
    } else {
        read_head(data + 1, size - 1, each);
    }
    return 0;
}
