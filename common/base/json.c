/* common/base/json.c: the JSON writer. */
#include "common/base/json.h"

#include <string.h>

#include "common/base/error.h"
#include "common/base/utf8.h"

/* Most documents are one line of status; this saves them the first few growths. */
#define JSON_FIRST_CAP 256

void json_init(struct json *j, const struct tfe_mem *mem)
{
    *j = (struct json){.mem = mem};
}

void json_done(struct json *j)
{
    mem_free(j->mem, j->text);
    *j = (struct json){.mem = j->mem};
}

/* Keeps the first error: the later ones only follow from it. */
static void json_fail(struct json *j, int error)
{
    if (!j->error) {
        j->error = error;
    }
}

/* Appends n bytes and keeps room for the final NUL. */
static void json_put(struct json *j, const char *bytes, size_t n)
{
    if (j->error) {
        return;
    }
    size_t need = j->n + n + 1;
    if (need < JSON_FIRST_CAP) {
        need = JSON_FIRST_CAP;
    }
    void *text = j->text;
    int rc = mem_reserve(j->mem, &text, &j->cap, need, 1);
    if (rc) {
        json_fail(j, rc);
        return;
    }
    j->text = text;
    memcpy(j->text + j->n, bytes, n);
    j->n += n;
}

static void json_put_escape(struct json *j, char c)
{
    static const char hex[] = "0123456789abcdef";
    switch (c) {
    case '"':
        json_put(j, "\\\"", 2);
        return;
    case '\\':
        json_put(j, "\\\\", 2);
        return;
    case '\n':
        json_put(j, "\\n", 2);
        return;
    case '\r':
        json_put(j, "\\r", 2);
        return;
    case '\t':
        json_put(j, "\\t", 2);
        return;
    default: {
        const unsigned char u = (unsigned char)c;
        const char escape[6] = {'\\', 'u', '0', '0', hex[u >> 4], hex[u & 15u]};
        json_put(j, escape, sizeof escape);
    }
    }
}

static bool json_needs_escape(char c)
{
    return c == '"' || c == '\\' || (unsigned char)c < 0x20;
}

static void json_put_quoted(struct json *j, const char *text)
{
    json_put(j, "\"", 1);
    size_t left = strlen(text);
    while (left > 0 && !j->error) {
        /* As much as can be copied as it is in one go. */
        size_t plain = 0;
        size_t step = 0;
        while (plain < left && !json_needs_escape(text[plain]) &&
               (step = utf8_length(text + plain, left - plain)) > 0) {
            plain += step;
        }
        json_put(j, text, plain);
        text += plain;
        left -= plain;
        if (left == 0) {
            break;
        }
        if (json_needs_escape(*text)) {
            json_put_escape(j, *text);
        } else {
            json_put(j, UTF8_REPLACEMENT, strlen(UTF8_REPLACEMENT));
        }
        text++;
        left--;
    }
    json_put(j, "\"", 1);
}

/* What precedes any value: the comma and, in an object, the key. */
static void json_start(struct json *j, const char *key)
{
    if (j->error) {
        return;
    }
    if (j->depth == 0 ? (key || j->n > 0) : ((key != NULL) != j->is_object[j->depth])) {
        json_fail(j, TFE_ESTATE);
        return;
    }
    if (j->depth > 0 && !j->first[j->depth]) {
        json_put(j, ",", 1);
    }
    j->first[j->depth] = false;
    if (key) {
        json_put_quoted(j, key);
        json_put(j, ":", 1);
    }
}

static void json_open(struct json *j, const char *key, bool is_object)
{
    json_start(j, key);
    if (!j->error && j->depth == JSON_DEPTH_MAX) {
        json_fail(j, TFE_ETOOBIG);
    }
    if (j->error) {
        return;
    }
    json_put(j, is_object ? "{" : "[", 1);
    j->depth++;
    j->first[j->depth] = true;
    j->is_object[j->depth] = is_object;
}

static void json_close(struct json *j, bool is_object)
{
    if (!j->error && (j->depth == 0 || j->is_object[j->depth] != is_object)) {
        json_fail(j, TFE_ESTATE);
    }
    if (j->error) {
        return;
    }
    json_put(j, is_object ? "}" : "]", 1);
    j->depth--;
}

void json_begin_object(struct json *j, const char *key)
{
    json_open(j, key, true);
}

void json_end_object(struct json *j)
{
    json_close(j, true);
}

void json_begin_array(struct json *j, const char *key)
{
    json_open(j, key, false);
}

void json_end_array(struct json *j)
{
    json_close(j, false);
}

void json_text(struct json *j, const char *key, const char *text)
{
    if (!text) {
        json_add_null(j, key);
        return;
    }
    json_start(j, key);
    json_put_quoted(j, text);
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + (char)(value % 10));
        value /= 10;
    } while (value > 0);
    json_start(j, key);
    json_put(j, digits + at, sizeof digits - at);
}

void json_i64(struct json *j, const char *key, int64_t value)
{
    char digits[21];
    size_t at = sizeof digits;
    /* The magnitude of INT64_MIN has no int64_t. */
    uint64_t left = value < 0 ? 0u - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + (char)(left % 10));
        left /= 10;
    } while (left > 0);
    if (value < 0) {
        digits[--at] = '-';
    }
    json_start(j, key);
    json_put(j, digits + at, sizeof digits - at);
}

void json_bool(struct json *j, const char *key, bool value)
{
    json_start(j, key);
    json_put(j, value ? "true" : "false", value ? 4 : 5);
}

void json_add_null(struct json *j, const char *key)
{
    json_start(j, key);
    json_put(j, "null", 4);
}

int json_finish(struct json *j, const char **ret_text, size_t *ret_n)
{
    if (j->error) {
        return j->error;
    }
    if (j->depth > 0 || j->n == 0) {
        return TFE_ESTATE;
    }
    j->text[j->n] = '\0';
    *ret_text = j->text;
    *ret_n = j->n;
    return 0;
}
