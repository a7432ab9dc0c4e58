/* tests/fuzz/fuzz.h: what a target is made of. Each fuzz_NAME.c reads bytes that a stranger may
 * have chosen with one reader of the product, and checks what has to hold for all of them. With
 * clang the library of libFuzzer drives it (scripts/fuzz.sh), else replay.c: a corpus and so many
 * mutations of it, the same each time. */
#ifndef TFE_TESTS_FUZZ_FUZZ_H
#define TFE_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The name and the type are libFuzzer's; 0 always. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
