/* common/cli/suggest.h: which word somebody meant who typed another one. */
#ifndef TFE_COMMON_CLI_SUGGEST_H
#define TFE_COMMON_CLI_SUGGEST_H

#include <stddef.h>

struct suggestion {
    const char *typed;
    size_t n;
    size_t distance;
    const char *word; /* the nearest that was tried, NULL while none is near */
};

/* The n bytes at typed are borrowed. '-' and '_' are the same. */
void suggest_init(struct suggestion *suggestion, const char *typed, size_t n);

/* Borrows word. The first of several that are as near counts. */
void suggest_try(struct suggestion *suggestion, const char *word);

#endif
