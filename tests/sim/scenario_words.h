/* tests/sim/scenario_words.h: a line of a scenario as words; durations, ranges, numbers in them. */
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
    bool asked[WORDS_MAX]; /* its value was: what nobody asks for is a slip of the pen */
    size_t n;
    unsigned line;
};

/* -1: too long, or too many. A # ends the line. */
int words_split(struct words *words, const char *text, size_t n, unsigned line);

/* The value of the first word KEY=VALUE; NULL: there is none. */
const char *words_value(struct words *words, const char *key);
/* The first word KEY=VALUE whose value nobody has asked for; NULL: there is none. */
const char *words_unasked(const struct words *words);

/* "250ms", "2s", "1.5s", "3m", or 0. -1: none of these. */
int words_duration(const char *text, int64_t *ret_ms);
/* "2s..3s", or one duration for both. */
int words_range(const char *text, uint32_t *ret_lo, uint32_t *ret_hi);
/* "1:4", or one number for both. */
int words_sizes(const char *text, uint32_t *ret_min, uint32_t *ret_max);
int words_number(const char *text, uint64_t *ret);
/* "+5%", "-2.5%" as parts per million of a clock's rate. */
int words_rate(const char *text, int64_t *ret_ppm);

#endif
