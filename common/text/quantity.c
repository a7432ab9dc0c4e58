/* common/text/quantity.c: parses quantities in the notation of Kubernetes. */
#include "common/text/quantity.h"

#include <stddef.h>
#include <string.h>

#define NANO 1000000000u

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool multiply(struct quantity *q, uint32_t factor)
{
    const uint64_t nano = (uint64_t)q->nano * factor;
    const uint64_t carry = nano / NANO;
    if (q->whole > (UINT64_MAX - carry) / factor) {
        return false;
    }
    q->whole = q->whole * factor + carry;
    q->nano = (uint32_t)(nano % NANO);
    return true;
}

/* Divides by ten; sets *is_inexact if a digit below 1e-9 is lost. */
static void divide(struct quantity *q, bool *is_inexact)
{
    const uint64_t nano = q->whole % 10 * NANO + q->nano;
    *is_inexact = *is_inexact || nano % 10 != 0;
    q->whole /= 10;
    q->nano = (uint32_t)(nano / 10);
}

/* Parses the digits and advances *text past them. */
static bool parse_digits(const char **text, struct quantity *ret, bool *is_inexact)
{
    const char *at = *text;
    size_t n = 0;
    struct quantity q = {.whole = 0};
    for (; is_digit(*at); at++, n++) {
        if (!multiply(&q, 10) || q.whole > UINT64_MAX - 9) {
            return false;
        }
        q.whole += (uint64_t)(*at - '0');
    }
    if (*at == '.') {
        uint32_t unit = NANO / 10;
        for (at++; is_digit(*at); at++, n++) {
            q.nano += unit * (uint32_t)(*at - '0');
            *is_inexact = *is_inexact || (unit == 0 && *at != '0');
            unit /= 10;
        }
    }
    *text = at;
    *ret = q;
    return n > 0;
}

/* Returns the power of ten of e9, E+3 or e-3; false if text is none. */
static bool parse_exponent(const char *text, int *ret)
{
    const bool is_negative = text[0] != '\0' && text[1] == '-';
    int power = 0;
    if (text[0] != 'e' && text[0] != 'E') {
        return false;
    }
    text += is_negative || text[1] == '+' ? 2 : 1;
    if (!is_digit(text[0])) {
        return false;
    }
    for (; is_digit(*text) && power < 100; text++) {
        power = power * 10 + (*text - '0');
    }
    *ret = is_negative ? -power : power;
    return *text == '\0';
}

/* Returns the power of ten, or of two if *ret_is_binary; false if text is no suffix. */
static bool parse_suffix(const char *text, int *ret_power, bool *ret_is_binary)
{
    static const char small[] = "mun";
    static const char large[] = "kMGTPE";
    static const char binary[] = "KMGTPE";
    const size_t n = strlen(text);
    const char *at = NULL;
    *ret_is_binary = false;
    *ret_power = 0;
    if (n == 0) {
        return true;
    }
    if (n == 1 && (at = strchr(small, text[0]))) {
        *ret_power = -3 * (int)(at - small + 1);
    } else if (n == 1 && (at = strchr(large, text[0]))) {
        *ret_power = 3 * (int)(at - large + 1);
    } else if (n == 2 && text[1] == 'i' && (at = strchr(binary, text[0]))) {
        *ret_power = 10 * (int)(at - binary + 1);
        *ret_is_binary = true;
    }
    return at || parse_exponent(text, ret_power);
}

bool quantity_parse(const char *text, struct quantity *ret)
{
    struct quantity q;
    bool is_inexact = false;
    bool is_binary;
    int power;
    if (*text == '+') {
        text++;
    }
    if (!parse_digits(&text, &q, &is_inexact) || !parse_suffix(text, &power, &is_binary)) {
        return false;
    }
    for (; power > 0 && (q.whole > 0 || q.nano > 0); power--) {
        if (!multiply(&q, is_binary ? 2 : 10)) {
            return false;
        }
    }
    for (; power < 0; power++) {
        divide(&q, &is_inexact);
    }
    if (is_inexact) {
        q.nano++;
    }
    if (q.nano == NANO) {
        q.nano = 0;
        q.whole++;
    }
    *ret = q;
    return true;
}

bool quantity_equal(const char *a, const char *b)
{
    struct quantity one;
    struct quantity other;
    return quantity_parse(a, &one) && quantity_parse(b, &other) && one.whole == other.whole &&
           one.nano == other.nano;
}

bool quantity_label_fits(const char *wanted, const char *has)
{
    static const char *const keys[] = {"cpu=", "memory=", "ephemeral-storage="};
    if (strcmp(wanted, has) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const size_t n = strlen(keys[i]);
        if (strncmp(wanted, keys[i], n) == 0 && strncmp(has, keys[i], n) == 0) {
            return quantity_equal(wanted + n, has + n);
        }
    }
    return false;
}
