/* common/base/id.c: what is a legal id. */
#include "common/base/id.h"

#include <string.h>

#include "common/base/error.h"

/* Not strspn: ids are looked up with every probe, and it makes a table of 256 bytes each time. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

bool id_is_valid(const char *text)
{
    if (!text) {
        return false;
    }
    size_t n = strnlen(text, TFE_ID_MAX + 1);
    if (n == 0 || n > TFE_ID_MAX) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!is_plain(text[i])) {
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

int id_compare(const struct tfe_id *a, const struct tfe_id *b)
{
    return strcmp(a->text, b->text);
}
