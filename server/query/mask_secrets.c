/* server/query/mask_secrets.c: see mask_secrets.h. */
#include "server/query/mask_secrets.h"

#include <stdio.h>
#include <string.h>

#include "common/job/job_file.h"

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

/* Copies the URL of a repository without its secrets, cut to cap bytes. */
static void mask_url(char *ret, size_t cap, const char *url)
{
    const char *scheme = strstr(url, "://");
    ret[0] = '\0';
    if (!scheme) {
        append(ret, cap, url, strlen(url));
        return;
    }
    const char *user = scheme + 3;
    const char *path = user + strcspn(user, "/?#");
    const char *host = user;
    for (const char *at = user; at < path; at++) {
        host = *at == '@' ? at + 1 : host;
    }
    append(ret, cap, url, (size_t)(user - url));
    if (host > user && is_secret(url, user, (size_t)(host - user))) {
        append(ret, cap, MASK "@", strlen(MASK "@"));
        user = host;
    }
    const size_t n = strcspn(user, "?#");
    append(ret, cap, user, n);
    if (user[n] != '\0') {
        append(ret, cap, user + n, 1);
        append(ret, cap, MASK, strlen(MASK));
    }
}

static bool is_python(const char *word)
{
    const char *slash = strrchr(word, '/');
    return strncmp(slash ? slash + 1 : word, "python", 6) == 0;
}

static const char *word_at(const json_t *command, size_t i)
{
    const char *word = json_string_value(json_array_get(command, i));
    return word ? word : "";
}

/* Returns how many words of the command are shown to those who may not see its arguments. */
static size_t masked_words(const json_t *command)
{
    size_t shown = 1;
    size_t at = 1;
    if (is_python(word_at(command, 0))) {
        at += strcmp(word_at(command, at), "-u") == 0;
        at += strcmp(word_at(command, at), "-m") == 0;
        if (word_at(command, at)[0] != '-' && word_at(command, at)[0] != '\0') {
            shown = at + 1;
        }
    }
    return shown;
}

static int mask_arguments(json_t *command)
{
    const size_t shown = masked_words(command);
    const bool is_cut = json_array_size(command) > shown;
    while (json_array_size(command) > shown) {
        (void)json_array_remove(command, json_array_size(command) - 1);
    }
    return is_cut ? json_array_append_new(command, json_string("…")) : 0;
}

int mask_job(json_t *job, bool shows_arguments)
{
    char url[MSG_WORD_MAX + sizeof(MASK) * 2];
    json_t *source = json_object_get(job, "source");
    const char *git = job_source(job, "git");
    json_t *names = json_array();
    const char *name;
    json_t *value;
    bool is_masked = names;
    json_object_foreach(json_object_get(job, "env"), name, value)
    {
        is_masked = is_masked && json_array_append_new(names, json_string(name)) == 0;
    }
    is_masked = json_object_set_new(job, "env", names) == 0 && is_masked;
    if (git) {
        mask_url(url, sizeof(url), git);
        is_masked = json_object_set_new(source, "git", json_string(url)) == 0 && is_masked;
    }
    if (!shows_arguments) {
        is_masked = mask_arguments(json_object_get(job, "command")) == 0 && is_masked;
    }
    return is_masked ? 0 : TFE_ENOMEM;
}
