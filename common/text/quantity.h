/* common/text/quantity.h: quantities in the notation of Kubernetes: 2, 0.5, 500m, 1e9, 4Gi.
 * Pure. */
#ifndef TFE_COMMON_TEXT_QUANTITY_H
#define TFE_COMMON_TEXT_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

/* A non-negative value. Fractions below 1e-9 are rounded up, as in Kubernetes. */
struct quantity {
    uint64_t whole;
    uint32_t nano;
};

/* Parses a quantity that is not negative: digits with at most one point, then nothing, one of n, u,
 * m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, or a decimal exponent (e9, E-3). Returns false if
 * text is none, or too large for whole. */
bool quantity_parse(const char *text, struct quantity *ret);

/* Returns true if both texts are quantities and have the same value. */
bool quantity_equal(const char *a, const char *b);

/* Returns true if a node label ("KEY=VALUE") satisfies the wanted one. Values of cpu, memory and
 * ephemeral-storage are compared as quantities, all others as text. */
bool quantity_label_fits(const char *wanted, const char *has);

#endif
