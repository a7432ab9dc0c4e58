/* common/base/json.h: writes JSON into a growing buffer; there is no reader. Pure. */
#ifndef TFE_COMMON_BASE_JSON_H
#define TFE_COMMON_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/mem.h"

/* Containers nest at most this deep; ours need four. */
#define JSON_DEPTH_MAX 16

/* An error (out of memory, too deep, a key missing or too many, the wrong end) is remembered and
 * every later call does nothing, so that callers check once, with json_finish. */
struct json {
    const struct tfe_mem *mem;
    char *text;
    size_t n;
    size_t cap;
    int error;
    unsigned depth;
    bool first[JSON_DEPTH_MAX + 1];
    bool is_object[JSON_DEPTH_MAX + 1];
};

void json_init(struct json *j, const struct tfe_mem *mem);

/* key is NULL inside arrays and for the outermost value, else the member's name. */
void json_begin_object(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_begin_array(struct json *j, const char *key);
void json_end_array(struct json *j);
/* text NULL writes null. Bytes that are not UTF-8 become U+FFFD. */
void json_text(struct json *j, const char *key, const char *text);
void json_u64(struct json *j, const char *key, uint64_t value);
void json_i64(struct json *j, const char *key, int64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_add_null(struct json *j, const char *key);

/* The NUL-terminated text, owned by j until json_done. TFE_ENOMEM, TFE_ETOOBIG (nested too deep);
 * TFE_ESTATE: a container is still open, nothing was written, or the calls make no JSON. */
int json_finish(struct json *j, const char **ret_text, size_t *ret_n);

void json_done(struct json *j);

#endif
