/* tests/sim/names.c: hash table from a name to a small index. */
#include "tests/sim/names.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

static size_t slot_of(const struct names *names, const char *name, size_t n)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    }
    size_t slot = (size_t)(hash ^ hash >> 32) & (names->cap - 1);
    while (names->keys[slot] &&
           (strncmp(names->keys[slot], name, n) != 0 || names->keys[slot][n] != '\0')) {
        slot = (slot + 1) & (names->cap - 1);
    }
    return slot;
}

void names_add(struct names *names, const char *name, uint32_t value)
{
    if (2 * (names->n + 1) > names->cap) {
        struct names grown = {.cap = names->cap ? names->cap * 2 : 64};
        grown.keys = sim_alloc(grown.cap, sizeof(*grown.keys));
        grown.values = sim_alloc(grown.cap, sizeof(*grown.values));
        for (size_t i = 0; i < names->cap; i++) {
            if (names->keys[i]) {
                names_add(&grown, names->keys[i], names->values[i]);
            }
        }
        names_done(names);
        *names = grown;
    }
    size_t slot = slot_of(names, name, strlen(name));
    names->keys[slot] = name;
    names->values[slot] = value;
    names->n++;
}

uint32_t names_find(const struct names *names, const char *name, size_t n)
{
    if (names->n == 0) {
        return NAMES_NONE;
    }
    size_t slot = slot_of(names, name, n);
    return names->keys[slot] ? names->values[slot] : NAMES_NONE;
}

void names_done(struct names *names)
{
    free(names->keys);
    free(names->values);
    *names = (struct names){0};
}
