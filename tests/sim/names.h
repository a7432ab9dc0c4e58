/* tests/sim/names.h: hash table from a name to a small index. */
#ifndef TFE_TESTS_SIM_NAMES_H
#define TFE_TESTS_SIM_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define NAMES_NONE UINT32_MAX

/* Hash table with open addressing; all zero means empty. The names are borrowed. */
struct names {
    const char **keys;
    uint32_t *values;
    size_t n;
    size_t cap;
};

/* Adds a name. Precondition: the name is not in the table. */
void names_add(struct names *names, const char *name, uint32_t value);
/* Returns the index of the name, of which only the first n characters count, or NAMES_NONE. */
uint32_t names_find(const struct names *names, const char *name, size_t n);
void names_done(struct names *names);

#endif
