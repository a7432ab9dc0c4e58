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

static bool is_python(const char *word, size_t n)
{
    const char *name = word;
    for (const char *at = word; at < word + n; at++) {
        name = *at == '/' ? at + 1 : name;
    }
    return strncmp(name, "python", 6) == 0;
}

static char *next_word(char *word)
{
    char *end = word + strcspn(word, " ");
    return *end == ' ' ? end + 1 : end;
}

void mask_command(char *command, size_t cap)
{
    const size_t n = strcspn(command, " ");
    char *shown = command + n; /* end of the part that stays visible */
    if (is_python(command, n)) {
        char *word = next_word(command);
        if (strncmp(word, "-u ", 3) == 0) {
            word = next_word(word);
        }
        if (strncmp(word, "-m ", 3) == 0) {
            word = next_word(word);
        }
        if (*word != '-' && *word != '\0') {
            shown = word + strcspn(word, " ");
        }
    }
    if (*shown != '\0') {
        (void)snprintf(shown, cap - (size_t)(shown - command), " …");
    }
}
