/* tests/fuzz/fuzz_token.c: a token has one text, and nothing else is one. */
#include <sodium.h>
#include <string.h>

#include "common/handshake/token.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[2 * TOKEN_TEXT_MAX + 1];
    if (sodium_init() < 0 || size >= sizeof text) {
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    struct token token;
    if (token_parse(&token, text) == 0) {
        char again[TOKEN_TEXT_MAX];
        token_format(&token, again);
        size_t n = strlen(again);
        const char *at = strstr(text, again);
        MUST(at);
        MUST(strspn(text, " \t\r\n\v\f") == (size_t)(at - text));
        MUST(strspn(at + n, " \t\r\n\v\f") == strlen(at + n));
        token_done(&token);
    }
    return 0;
}
