/* common/cli/options_value.c: parses option values: numbers, durations, words. */
#include <string.h>

#include "common/cli/options.h"
#include "common/message/msg.h"

bool options_digits(const char **at, uint64_t max, uint64_t *ret)
{
    const char *p = *at;
    uint64_t value = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (max < digit || value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (p == *at) {
        return false;
    }
    *at = p;
    *ret = value;
    return true;
}

/* Returns the milliseconds of a unit, or 0 if there is no such unit. */
static uint64_t unit_ms(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].name) == 0) {
            return units[i].ms;
        }
    }
    return 0;
}

int options_duration(const char *text, uint32_t *ret_ms)
{
    const char *at = text;
    uint64_t whole = 0;
    if (*at != '.' && !options_digits(&at, MSG_DURATION_MAX_MS, &whole)) {
        return TFE_EINVAL;
    }
    uint64_t fraction = 0;
    uint64_t scale = 1;
    if (*at == '.') {
        at++;
        if (*at < '0' || *at > '9') {
            return TFE_EINVAL;
        }
        while (*at >= '0' && *at <= '9') {
            /* Nine digits of a day are below a microsecond; ignore further digits. */
            if (scale < 1000000000u) {
                fraction = fraction * 10 + (uint64_t)(*at - '0');
                scale *= 10;
            }
            at++;
        }
    }
    const uint64_t unit = unit_ms(at);
    if (unit == 0) {
        return TFE_EINVAL;
    }
    /* Round up: a value above zero must not become zero, which means "off" for many options. */
    const uint64_t ms = whole * unit + (fraction * unit + scale - 1) / scale;
    if (ms > MSG_DURATION_MAX_MS) {
        return TFE_EINVAL;
    }
    *ret_ms = (uint32_t)ms;
    return 0;
}

static int set_flag(void *field, const char *value, struct tfe_reason *reason)
{
    bool on;
    if (strcmp(value, "true") == 0 || strcmp(value, "1") == 0) {
        on = true;
    } else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0) {
        on = false;
    } else {
        reason_set(reason, "expected true or false, found '%s'", value);
        return TFE_EINVAL;
    }
    memcpy(field, &on, sizeof on);
    return 0;
}

static int set_word(const struct option_spec *row, void *field, const char *value,
                    struct tfe_reason *reason)
{
    struct tfe_reason legal = {.text = ""};
    for (unsigned i = 0; row->words[i]; i++) {
        if (strcmp(value, row->words[i]) == 0) {
            memcpy(field, &i, sizeof i);
            return 0;
        }
        struct tfe_reason before = legal;
        reason_set(&legal, "%s%s%s", before.text, i > 0 ? ", " : "", row->words[i]);
    }
    reason_set(reason, "expected one of %s, found \"%s\"", legal.text, value);
    return TFE_EINVAL;
}

static int set_number(const struct option_spec *row, void *field, const char *value,
                      struct tfe_reason *reason)
{
    const char *at = value;
    uint64_t number = 0;
    const bool digits = *value != '\0' && strspn(value, "0123456789") == strlen(value);
    const bool read = digits && options_digits(&at, UINT32_MAX, &number);
    if (!digits) {
        reason_set(reason, "expected a non-negative integer, found '%s'", value);
        return TFE_EINVAL;
    }
    const uint64_t max = row->max > 0 ? row->max : UINT32_MAX;
    if (!read || number < row->min || number > max) {
        reason_set(reason, "%s is not between %llu and %llu", value, (unsigned long long)row->min,
                   (unsigned long long)max);
        return TFE_EINVAL;
    }
    const uint32_t narrow = (uint32_t)number;
    memcpy(field, &narrow, sizeof narrow);
    return 0;
}

/* Formats a duration in its largest whole unit. */
static void duration_text(uint64_t ms, struct tfe_reason *ret)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (ms >= units[i].ms && ms % units[i].ms == 0) {
            reason_set(ret, "%llu%s", (unsigned long long)(ms / units[i].ms), units[i].name);
            return;
        }
    }
    reason_set(ret, "%llums", (unsigned long long)ms);
}

static int set_duration(const struct option_spec *row, void *field, const char *value,
                        struct tfe_reason *reason)
{
    uint32_t ms = 0;
    if (options_duration(value, &ms)) {
        reason_set(reason, "'%s' is not a duration such as 500ms, 10s, 2m or 1h (at most 30d)",
                   value);
        return TFE_EINVAL;
    }
    if (row->max > 0 && (ms < row->min || ms > row->max)) {
        struct tfe_reason min;
        struct tfe_reason max;
        duration_text(row->min, &min);
        duration_text(row->max, &max);
        reason_set(reason, "%s is not between %s and %s", value, min.text, max.text);
        return TFE_EINVAL;
    }
    memcpy(field, &ms, sizeof ms);
    return 0;
}

int options_set_value(const struct option_spec *row, void *settings, const char *value,
                      struct tfe_reason *reason)
{
    void *field = (char *)settings + row->offset;
    switch (row->kind) {
    case OPTION_FLAG:
        return set_flag(field, value, reason);
    case OPTION_TEXT:
        memcpy(field, &value, sizeof value);
        return 0;
    case OPTION_NUMBER:
        return set_number(row, field, value, reason);
    case OPTION_DURATION:
        return set_duration(row, field, value, reason);
    case OPTION_WORD:
        return set_word(row, field, value, reason);
    case OPTION_PARSE:
        return row->parse(field, value, reason);
    case OPTION_IGNORED:
        return 0;
    }
    return TFE_EINVAL;
}

int options_nodes(const char *text, uint32_t *ret_min, uint32_t *ret_max, struct tfe_reason *reason)
{
    const char *at = text;
    uint64_t min;
    bool good = options_digits(&at, MSG_NODES_MAX, &min) && min > 0;
    uint64_t max = good ? min : 0;
    if (good && *at == ':') {
        at++;
        good = options_digits(&at, MSG_NODES_MAX, &max) && max > 0;
    }
    if (!good || *at) {
        reason_set(reason,
                   strchr(text, ':') ? "\"%s\" is not MIN:MAX with numbers from 1 to %u"
                                     : "\"%s\" is not a number from 1 to %u, nor MIN:MAX",
                   text, MSG_NODES_MAX);
        return TFE_EINVAL;
    }
    if (min > max) {
        reason_set(reason, "\"%s\" has a minimum above its maximum", text);
        return TFE_EINVAL;
    }
    *ret_min = (uint32_t)min;
    *ret_max = (uint32_t)max;
    return 0;
}
