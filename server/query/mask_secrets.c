/* server/query/mask_secrets.c: see mask_secrets.h. */
#include "server/query/mask_secrets.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MASK "***"

/* Appends n bytes of text, as far as they fit. */
static void append(char *ret, size_t cap, const char *text, size_t n)
{
    const size_t at = strlen(ret);
    (void)snprintf(ret + at, cap - at, "%.*s", (int)n, text);
}

/* For ssh the user name ("git@") only names an account; for other schemes it may be a token. */
static bool is_secret(const char *url, const char *user, size_t n)
{
    const bool is_http = strncmp(url, "http", 4) == 0;
    return is_http || memchr(user, ':', n);
}

void mask_source(char *ret, size_t cap, const char *source)
{
    const char *scheme = strstr(source, "://");
    ret[0] = '\0';
    if (!scheme) {
        append(ret, cap, source, strlen(source));
        return;
    }
    const char *user = scheme + 3;
    const char *path = user + strcspn(user, "/?#");
    const char *host = user;
    for (const char *at = user; at < path; at++) {
        host = *at == '@' ? at + 1 : host;
    }
    append(ret, cap, source, (size_t)(user - source));
    if (host > user && is_secret(source, user, (size_t)(host - user))) {
        append(ret, cap, MASK "@", strlen(MASK "@"));
        user = host;
    }
    const size_t n = strcspn(user, "?#");
    append(ret, cap, user, n);
    if (user[n] != '\0') {
        const char *commit = strrchr(user + n, '@');
        append(ret, cap, user + n, 1);
        append(ret, cap, MASK, strlen(MASK));
        append(ret, cap, commit ? commit : "", commit ? strlen(commit) : 0);
    }
}

static bool is_python(const char *word)
{
    const char *slash = strrchr(word, '/');
    return strncmp(slash ? slash + 1 : word, "python", 6) == 0;
}

size_t masked_words(const char *const *argv, size_t n)
{
    size_t shown = n > 0 ? 1 : 0;
    size_t at = 1;
    if (n > 1 && is_python(argv[0])) {
        at += strcmp(argv[at], "-u") == 0;
        at += at < n && strcmp(argv[at], "-m") == 0;
        if (at < n && argv[at][0] != '-' && argv[at][0] != '\0') {
            shown = at + 1;
        }
    }
    return shown;
}
