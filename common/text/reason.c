/* common/text/reason.c: builds error messages; each caller prepends its context. */
#include "common/text/reason.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/text/utf8.h"

/* Sets the reason to the concatenation of the three texts, which may overlap with it. */
static void reason_join(struct tfe_reason *reason, const char *head, const char *between,
                        const char *tail)
{
    char text[sizeof reason->text];
    size_t n = 0;
    const char *const parts[] = {head, between, tail};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t take = strlen(parts[i]);
        const size_t space = sizeof text - 1 - n;
        if (take > space) {
            take = utf8_cut(parts[i], space);
        }
        memcpy(text + n, parts[i], take);
        n += take;
    }
    text[n] = '\0';
    memcpy(reason->text, text, n + 1);
}

static void reason_format(char ret[sizeof((struct tfe_reason *)0)->text], const char *format,
                          va_list args) __attribute__((format(printf, 2, 0)));

static void reason_format(char ret[sizeof((struct tfe_reason *)0)->text], const char *format,
                          va_list args)
{
    const size_t cap = sizeof((struct tfe_reason *)0)->text;
    if (vsnprintf(ret, cap, format, args) < 0) {
        ret[0] = '\0';
    }
    utf8_mark_cuts(ret, cap);
}

void reason_set(struct tfe_reason *reason, const char *format, ...)
{
    char text[sizeof reason->text];
    va_list args;
    va_start(args, format);
    reason_format(text, format, args);
    va_end(args);
    reason_join(reason, text, "", "");
}

void reason_errno(struct tfe_reason *reason, const char *format, ...)
{
    const int error = errno;
    char text[sizeof reason->text];
    va_list args;
    va_start(args, format);
    reason_format(text, format, args);
    va_end(args);

    char space[128];
    char detail[128];
    /* strerror_r here is the GNU form: it returns the text, which may or may not be in the
     * buffer. */
    (void)snprintf(detail, sizeof detail, "%s", strerror_r(error, space, sizeof space));
    /* Lower-case the first letter, because the text stands within a sentence; acronyms such as
     * "RPC" stay. */
    if (isupper((unsigned char)detail[0]) && !isupper((unsigned char)detail[1])) {
        detail[0] = (char)tolower((unsigned char)detail[0]);
    }
    reason_join(reason, text, ": ", detail);
    errno = error;
}

void reason_prefix(struct tfe_reason *reason, const char *format, ...)
{
    char text[sizeof reason->text];
    va_list args;
    va_start(args, format);
    reason_format(text, format, args);
    va_end(args);
    reason_join(reason, text, ": ", reason->text);
}
