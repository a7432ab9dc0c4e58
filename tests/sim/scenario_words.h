/* tests/sim/scenario_words.h: splits a line of a scenario into words; parses durations, ranges and
 * numbers. */
#ifndef TFE_TESTS_SIM_SCENARIO_WORDS_H
#define TFE_TESTS_SIM_SCENARIO_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORDS_MAX 80
#define WORDS_TEXT_MAX 1024

struct words {
    char text[WORDS_TEXT_MAX];
    char *v[WORDS_MAX];
    bool asked[WORDS_MAX]; /* the value was used; an unused word is reported as a mistake */
    size_t n;
    unsigned line;
};

/* Splits a line. Returns -1 if it is too long or has too many words. A # ends the line. */
int words_split(struct words *words, const char *text, size_t n, unsigned line);

/* Returns the value of the first word KEY=VALUE, or NULL. */
const char *words_value(struct words *words, const char *key);
/* Returns the first word KEY=VALUE whose value was not used, or NULL. */
const char *words_unasked(const struct words *words);

/* Parses "250ms", "2s", "1.5s", "3m" or 0. Returns -1 if it is none of these. */
int words_duration(const char *text, int64_t *ret_ms);
/* Parses "2s..3s", or one duration for both. */
int words_range(const char *text, uint32_t *ret_lo, uint32_t *ret_hi);
/* Parses "1:4", or one number for both. */
int words_sizes(const char *text, uint32_t *ret_min, uint32_t *ret_max);
int words_number(const char *text, uint64_t *ret);
/* Parses "+5%" or "-2.5%" as parts per million of a clock's rate. */
int words_rate(const char *text, int64_t *ret_ppm);

#endif
