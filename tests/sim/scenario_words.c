/* tests/sim/scenario_words.c: splits a line of a scenario into words. */
#include "tests/sim/scenario_words.h"

#include <stdlib.h>
#include <string.h>

int words_split(struct words *words, const char *text, size_t n, unsigned line)
{
    *words = (struct words){.line = line};
    const char *comment = memchr(text, '#', n);
    if (comment) {
        n = (size_t)(comment - text);
    }
    if (n >= sizeof(words->text)) {
        return -1;
    }
    memcpy(words->text, text, n);
    char *save = NULL;
    for (char *w = strtok_r(words->text, " \t", &save); w; w = strtok_r(NULL, " \t", &save)) {
        if (words->n == WORDS_MAX) {
            return -1;
        }
        words->v[words->n++] = w;
    }
    return 0;
}

const char *words_value(struct words *words, const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < words->n; i++) {
        if (strncmp(words->v[i], key, n) == 0 && words->v[i][n] == '=') {
            words->asked[i] = true;
            return words->v[i] + n + 1;
        }
    }
    return NULL;
}

const char *words_unasked(const struct words *words)
{
    for (size_t i = 0; i < words->n; i++) {
        if (strchr(words->v[i], '=') && !words->asked[i]) {
            return words->v[i];
        }
    }
    return NULL;
}

/* Parses the number at the start of text; sets *ret_end behind it. */
static int decimal(const char *text, double *ret, const char **ret_end)
{
    char *end;
    *ret = strtod(text, &end);
    *ret_end = end;
    return end == text ? -1 : 0;
}

static int duration(const char *text, int64_t *ret_ms, const char **ret_end)
{
    double value;
    if (decimal(text, &value, ret_end) || value < 0) {
        return -1;
    }
    if (strncmp(*ret_end, "ms", 2) == 0) {
        *ret_end += 2;
    } else if (**ret_end == 's') {
        *ret_end += 1;
        value *= 1000;
    } else if (**ret_end == 'm') {
        *ret_end += 1;
        value *= 60000;
    } else if (value != 0) {
        return -1;
    }
    *ret_ms = (int64_t)(value + 0.5);
    return 0;
}

int words_duration(const char *text, int64_t *ret_ms)
{
    const char *end;
    return duration(text, ret_ms, &end) || *end ? -1 : 0;
}

int words_range(const char *text, uint32_t *ret_lo, uint32_t *ret_hi)
{
    const char *end;
    int64_t lo;
    int64_t hi;
    if (duration(text, &lo, &end)) {
        return -1;
    }
    hi = lo;
    if (strncmp(end, "..", 2) == 0 && duration(end + 2, &hi, &end)) {
        return -1;
    }
    if (*end || hi < lo || hi > UINT32_MAX) {
        return -1;
    }
    *ret_lo = (uint32_t)lo;
    *ret_hi = (uint32_t)hi;
    return 0;
}

int words_number(const char *text, uint64_t *ret)
{
    char *end;
    *ret = strtoull(text, &end, 10);
    return end == text || *end ? -1 : 0;
}

int words_sizes(const char *text, uint32_t *ret_min, uint32_t *ret_max)
{
    char *end;
    *ret_min = *ret_max = (uint32_t)strtoul(text, &end, 10);
    if (*end == ':') {
        *ret_max = (uint32_t)strtoul(end + 1, &end, 10);
    }
    return *end || *ret_min == 0 ? -1 : 0;
}

int words_rate(const char *text, int64_t *ret_ppm)
{
    double percent;
    const char *end;
    if (decimal(text, &percent, &end) || strcmp(end, "%") != 0) {
        return -1;
    }
    *ret_ppm = 1000000 + (int64_t)(percent * 10000 + (percent < 0 ? -0.5 : 0.5));
    return 0;
}
