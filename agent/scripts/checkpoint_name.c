/* agent/scripts/checkpoint_name.c: reads names and the state file of TensorFlow's checkpoints. */
#include "agent/scripts/checkpoint_name.h"

#include <string.h>

#define KEY "model_checkpoint_path:"

/* One character of a protobuf text string, escapes (\" \\ \n \123) resolved; -1: the text ends
 * here. */
static int unescape(const char **at, const char *end)
{
    int c = (unsigned char)*(*at)++;
    if (c != '\\') {
        return c;
    }
    if (*at == end) {
        return -1;
    }
    c = (unsigned char)*(*at)++;
    if (c < '0' || c > '7') {
        return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
    int value = c - '0';
    for (int i = 0; i < 2 && *at < end && **at >= '0' && **at <= '7'; i++) {
        value = value * 8 + (*(*at)++ - '0');
    }
    return value & 0xff;
}

/* The string behind at, up to its closing quote; only what follows its last slash is kept. */
static bool read_string(const char *at, const char *end, char ret[CHECKPOINT_NAME_MAX + 1])
{
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    if (at == end || (*at != '"' && *at != '\'')) {
        return false;
    }
    char quote = *at++;
    size_t n = 0;
    while (at < end && *at != quote) {
        int c = unescape(&at, end);
        if (c == '/') {
            n = 0;
        } else if (c <= 0 || n == CHECKPOINT_NAME_MAX) {
            return false;
        } else {
            ret[n++] = (char)c;
        }
    }
    ret[n] = '\0';
    return at < end && n != 0;
}

bool checkpoint_state_newest(const char *text, size_t n, char ret[CHECKPOINT_NAME_MAX + 1])
{
    const char *end = text + n;
    for (const char *line = text; line && line < end;) {
        if ((size_t)(end - line) > sizeof(KEY) - 1 && memcmp(line, KEY, sizeof(KEY) - 1) == 0) {
            return read_string(line + sizeof(KEY) - 1, end, ret);
        }
        line = memchr(line, '\n', (size_t)(end - line));
        line = line ? line + 1 : NULL;
    }
    return false;
}

bool checkpoint_name_step(const char *name, uint64_t *ret)
{
    const char *digits = strrchr(name, '-');
    uint64_t step = 0;
    if (!digits || !digits[1]) {
        return false;
    }
    for (const char *at = digits + 1; *at; at++) {
        if (*at < '0' || *at > '9' || step > (INT64_MAX - 9) / 10) {
            return false;
        }
        step = step * 10 + (uint64_t)(*at - '0');
    }
    *ret = step;
    return true;
}

size_t checkpoint_name_stem(const char *file)
{
    static const char *const parts[] = {"_temp", ".data-", ".index", ".meta"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *found = strstr(file, parts[i]);
        if (found) {
            return (size_t)(found - file);
        }
    }
    return 0;
}
