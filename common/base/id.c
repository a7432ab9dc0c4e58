/* common/base/id.c: validates and compares ids. */
#include "common/base/id.h"

#include <string.h>

#include "common/base/error.h"

/* Character tests are inlined instead of strspn, which builds a 256-byte table per call: ids are
 * compared at every hash probe. */
static bool is_first(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_inner(char c)
{
    return is_first(c) || c == '.' || c == '-';
}

bool id_is_valid(const char *text)
{
    if (!text) {
        return false;
    }
    size_t n = strnlen(text, TFE_ID_MAX + 1);
    if (n == 0 || n > TFE_ID_MAX || !is_first(text[0])) {
        return false;
    }
    for (size_t i = 1; i < n; i++) {
        if (!is_inner(text[i])) {
            return false;
        }
    }
    return true;
}

int id_set(struct tfe_id *ret, const char *text)
{
    if (!id_is_valid(text)) {
        return TFE_EINVAL;
    }
    memset(ret, 0, sizeof(*ret));
    memcpy(ret->text, text, strlen(text));
    return 0;
}

void id_from_text(struct tfe_id *ret, const char *text)
{
    const size_t n = strnlen(text, TFE_ID_MAX);
    *ret = (struct tfe_id){"_"};
    for (size_t i = 0; i < n; i++) {
        if (i == 0 ? is_first(text[i]) : is_inner(text[i])) {
            ret->text[i] = text[i];
        } else {
            ret->text[i] = i == 0 ? '_' : '-';
        }
    }
}

int id_compare(const struct tfe_id *a, const struct tfe_id *b)
{
    return strcmp(a->text, b->text);
}
