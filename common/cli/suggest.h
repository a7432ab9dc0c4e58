/* common/cli/suggest.h: finds the word most similar to a mistyped one. */
#ifndef TFE_COMMON_CLI_SUGGEST_H
#define TFE_COMMON_CLI_SUGGEST_H

#include <stddef.h>

struct suggestion {
    const char *typed;
    size_t n;
    size_t distance;
    const char *word; /* most similar word so far; NULL if none is similar */
};

/* Starts with the n bytes at typed, which are borrowed. '-' and '_' are equal. */
void suggest_init(struct suggestion *suggestion, const char *typed, size_t n);

/* Considers a word, which is borrowed. Of equally similar words the first wins. */
void suggest_try(struct suggestion *suggestion, const char *word);

#endif
