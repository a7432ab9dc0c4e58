/* common/net/log_words.c: the words of --log-level and --log-format. */
#include <string.h>

#include "common/net/log.h"

static int find(const char *text, const char *const *words, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(text, words[i]) == 0) {
            return i;
        }
    }
    return -1;
}

int log_parse_level(const char *text, enum log_level *ret, struct tfe_why *why)
{
    static const char *const words[] = {
        [LOG_DEBUG_] = "debug", [LOG_INFO_] = "info", [LOG_WARN_] = "warn", [LOG_ERROR_] = "error"};
    int i = find(text, words, 4);
    if (i < 0) {
        why_set(why, "\"%s\" is none of debug, info, warn, error", text);
        return TFE_EINVAL;
    }
    *ret = (enum log_level)i;
    return 0;
}

int log_parse_format(const char *text, enum log_format *ret, struct tfe_why *why)
{
    static const char *const words[] = {[LOG_LOGFMT] = "logfmt", [LOG_JSON] = "json"};
    int i = find(text, words, 2);
    if (i < 0) {
        why_set(why, "\"%s\" is neither logfmt nor json", text);
        return TFE_EINVAL;
    }
    *ret = (enum log_format)i;
    return 0;
}
