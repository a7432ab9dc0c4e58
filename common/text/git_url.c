/* common/text/git_url.c: implementation of git_url.h. */
#include "common/text/git_url.h"

#include <string.h>

#include "common/text/text.h"

#define MASK "***"

size_t git_url_length(const char *text)
{
    const char *path = strstr(text, "://");
    path = path ? strchr(path + 3, '/') : strpbrk(text, ":/");
    const char *at = path ? strrchr(path, '@') : strrchr(text, '@');
    return at ? (size_t)(at - text) : strlen(text);
}

static const char hex_digits[] = "0123456789abcdef";

bool git_ref_is_commit(const char *ref)
{
    const size_t n = strspn(ref, hex_digits);
    return ref[n] == '\0' && (n == 40 || n == GIT_COMMIT_MAX);
}

uint64_t git_commit_number(const char *commit)
{
    uint64_t number = 0;
    for (size_t i = 0; i < GIT_COMMIT_SHORT && commit[i] != '\0'; i++) {
        const char *digit = strchr(hex_digits, commit[i]);
        number = number << 4 | (digit ? (uint64_t)(digit - hex_digits) : 0);
    }
    return number;
}

/* For ssh the user name ("git@") only names an account; for other schemes it may be a token. */
static bool is_secret(const char *url, const char *user, size_t n)
{
    const bool is_http = strncmp(url, "http", 4) == 0;
    return is_http || memchr(user, ':', n);
}

void git_url_mask(char *ret, size_t cap, const char *url)
{
    struct text text;
    const char *scheme = strstr(url, "://");
    text_init(&text, ret, cap);
    if (!scheme) {
        text_add(&text, url);
        return;
    }
    const char *user = scheme + 3;
    const char *path = user + strcspn(user, "/?#");
    const char *host = user;
    for (const char *at = user; at < path; at++) {
        host = *at == '@' ? at + 1 : host;
    }
    text_addf(&text, "%.*s", (int)(user - url), url);
    if (host > user && is_secret(url, user, (size_t)(host - user))) {
        text_add(&text, MASK "@");
        user = host;
    }
    const size_t n = strcspn(user, "?#");
    text_addf(&text, "%.*s", (int)n, user);
    if (user[n] != '\0') {
        text_addf(&text, "%c" MASK, user[n]);
    }
}
