/* server/query/mask_secrets.c: see mask_secrets.h. */
#include "server/query/mask_secrets.h"

#include <string.h>

#include "common/job/job_file.h"
#include "common/text/git_url.h"

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
    char url[MSG_WORD_MAX + sizeof("***") * 2];
    json_t *source = json_object_get(job, "source");
    const char *git = job_source(job, "git");
    json_t *options = json_object_get(job, "options");
    const char *artifacts = job_text(options, "artifacts");
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
        git_url_mask(url, sizeof(url), git);
        is_masked = json_object_set_new(source, "git", json_string(url)) == 0 && is_masked;
    }
    if (artifacts) {
        git_url_mask(url, sizeof(url), artifacts);
        is_masked = json_object_set_new(options, "artifacts", json_string(url)) == 0 && is_masked;
    }
    if (!shows_arguments && json_object_get(options, "artifacts-command")) {
        is_masked =
            json_object_set_new(options, "artifacts-command", json_string("…")) == 0 && is_masked;
    }
    if (!shows_arguments) {
        is_masked = mask_arguments(json_object_get(job, "command")) == 0 && is_masked;
    }
    return is_masked ? 0 : TFE_ENOMEM;
}
