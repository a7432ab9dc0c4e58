/* tests/sim/names.h: from a name to a small index. */
#ifndef TFE_TESTS_SIM_NAMES_H
#define TFE_TESTS_SIM_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define NAMES_NONE UINT32_MAX

/* Open addressing; all zero is empty. The names are borrowed. */
struct names {
    const char **keys;
    uint32_t *values;
    size_t n;
    size_t cap;
};

/* Precondition: the name is not in it yet. */
void names_add(struct names *names, const char *name, uint32_t value);
/* NAMES_NONE: not there. Looks at the first n characters of name only. */
uint32_t names_find(const struct names *names, const char *name, size_t n);
void names_done(struct names *names);

#endif
