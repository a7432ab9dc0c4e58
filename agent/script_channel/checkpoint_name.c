/* agent/script_channel/checkpoint_name.c: implementation of checkpoint_name.h. */
#include "agent/script_channel/checkpoint_name.h"

#include <string.h>

#include "common/cli/options.h"
#include "common/message/msg.h"

#define KEY "model_checkpoint_path:"
/* Names that agent/python/tfe/_directory.py creates. */
#define MARKER "tfe-epoch-"
#define SAVED "ckpt-"
#define INDEX ".index"

/* Returns the next character of a protobuf text string with escapes (\" \\
 *  \123) resolved, or -1 at the end of the text. */
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

/* Reads the quoted string at `at` and stores the part after its last slash. */
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
    const char *hyphen = strrchr(name, '-');
    const char *at = hyphen ? hyphen + 1 : "";
    uint64_t step;
    if (!options_digits(&at, INT64_MAX - 1, &step) || *at) {
        return false;
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

uint64_t checkpoint_name_epoch(const char *file)
{
    uint64_t epoch;
    const char *at = file;
    if (strncmp(file, MARKER, sizeof(MARKER) - 1) == 0) {
        at += sizeof(MARKER) - 1;
        return options_digits(&at, MSG_EPOCH_LIMIT - 1, &epoch) && *at == '\0' ? epoch : 0;
    }
    if (strncmp(file, SAVED, sizeof(SAVED) - 1) == 0) {
        at += sizeof(SAVED) - 1;
        if (!options_digits(&at, MSG_EPOCH_LIMIT - 1, &epoch) || *at++ != '-') {
            return 0;
        }
        size_t digits = strspn(at, "0123456789");
        return digits != 0 && strcmp(at + digits, INDEX) == 0 ? epoch : 0;
    }
    return 0;
}
