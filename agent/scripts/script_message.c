/* agent/scripts/script_message.c: JSON of the script channel, with checks. */
#include "agent/scripts/script_message.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* One object under way: the first thing that is wrong with it stays. */
struct reading {
    const json_t *object;
    const char *why;
};

static void wrong(struct reading *r, const char *why)
{
    r->why = r->why ? r->why : why;
}

static uint64_t read_number(struct reading *r, const char *key, uint64_t max, const char *why)
{
    const json_t *value = json_object_get(r->object, key);
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (number < 0 || (uint64_t)number > max) {
        wrong(r, why);
        return 0;
    }
    return (uint64_t)number;
}

static uint64_t read_optional(struct reading *r, const char *key, const char *why)
{
    return json_object_get(r->object, key) ? read_number(r, key, INT64_MAX, why) : 0;
}

static bool read_flag(struct reading *r, const char *key, const char *why)
{
    const json_t *value = json_object_get(r->object, key);
    if (!json_is_boolean(value)) {
        wrong(r, why);
    }
    return json_is_true(value);
}

static bool read_optional_flag(struct reading *r, const char *key, const char *why)
{
    return json_object_get(r->object, key) ? read_flag(r, key, why) : false;
}

static void check_path(struct reading *r)
{
    const json_t *path = json_object_get(r->object, "path");
    if (path && (!json_is_string(path) || json_string_length(path) > SCRIPT_PATH_MAX)) {
        wrong(r, "path is no text of at most 4096 bytes");
    }
}

/* False: not one of ours. */
static bool read_word(const char *type, enum script_word *ret)
{
    static const char *const words[] = {[SCRIPT_HELLO] = "hello",
                                        [SCRIPT_PROGRESS] = "progress",
                                        [SCRIPT_CHECKPOINT] = "checkpoint"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(type, words[i]) == 0) {
            *ret = (enum script_word)i;
            return true;
        }
    }
    return false;
}

static int read_object(struct reading *r, struct script_message *m)
{
    const char *type = json_string_value(json_object_get(r->object, "type"));
    if (!type) {
        wrong(r, "it has no type");
        return TFE_EINVAL;
    }
    if (!read_word(type, &m->word)) {
        wrong(r, "its type is not known");
        return TFE_EUNKNOWN;
    }
    m->epoch = read_number(r, "epoch", INT64_MAX, "epoch is no number");
    m->rank = (uint32_t)read_number(r, "rank", UINT32_MAX, "rank is no number");
    switch (m->word) {
    case SCRIPT_HELLO:
        m->pid = (pid_t)read_number(r, "pid", INT32_MAX, "pid is no process id");
        m->listens = read_flag(r, "listens", "listens is neither true nor false");
        if (!m->pid) {
            wrong(r, "pid is no process id");
        }
        break;
    case SCRIPT_PROGRESS:
        m->step = read_number(r, "step", INT64_MAX, "step is no number");
        (void)read_optional(r, "samples", "samples is no number");
        m->restored = read_optional_flag(r, "restored", "restored is neither true nor false");
        break;
    case SCRIPT_CHECKPOINT:
        m->step = read_number(r, "step", INT64_MAX, "step is no number");
        m->answers = read_optional(r, "answers", "answers is no number");
        check_path(r);
        break;
    }
    return r->why ? TFE_EINVAL : 0;
}

int script_message_read(const char *bytes, size_t n, struct script_message *ret,
                        const char **ret_why)
{
    if (n > SCRIPT_MESSAGE_MAX) {
        *ret_why = "it is too long";
        return TFE_EINVAL;
    }
    json_t *object = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, NULL);
    struct reading r = {.object = object};
    struct script_message m = {.word = SCRIPT_HELLO};
    int rc = TFE_EINVAL;
    if (json_is_object(object)) {
        rc = read_object(&r, &m);
    } else {
        wrong(&r, "it is no JSON object");
    }
    json_decref(object);
    if (rc) {
        *ret_why = r.why;
        return rc;
    }
    *ret = m;
    return 0;
}

static size_t length(int n)
{
    return n > 0 && n < SCRIPT_ANSWER_MAX ? (size_t)n : 0;
}

size_t script_message_save(char ret[SCRIPT_ANSWER_MAX], uint64_t epoch, uint64_t number,
                           bool has_within, uint64_t within_ms)
{
    char within[24] = "null";
    if (has_within) {
        snprintf(within, sizeof(within), "%" PRIu64, within_ms);
    }
    return length(snprintf(ret, SCRIPT_ANSWER_MAX,
                           "{\"type\":\"save\",\"epoch\":%" PRIu64 ",\"number\":%" PRIu64
                           ",\"within_ms\":%s}",
                           epoch, number, within));
}

size_t script_message_stop(char ret[SCRIPT_ANSWER_MAX], uint64_t epoch, uint64_t grace_ms)
{
    return length(snprintf(ret, SCRIPT_ANSWER_MAX,
                           "{\"type\":\"stop\",\"epoch\":%" PRIu64 ",\"grace_ms\":%" PRIu64 "}",
                           epoch, grace_ms));
}
