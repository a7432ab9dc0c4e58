/* common/job/job_name.c: generates names for jobs. */
#include "common/job/job_name.h"

#include <stdio.h>
#include <string.h>

#include "common/base/id.h"
#include "common/job/job_file.h"
#include "common/message/submission.h"

/* Name of a job whose script and directory give no name (default command of job_file.c). */
#define NAMELESS "exec"

bool job_name_is_wanted(const json_t *job)
{
    return json_is_null(json_object_get(job, "name"));
}

/* Part of a text; n is 0 if there is none. */
struct piece {
    const char *at;
    size_t n;
};

/* Returns the last component of a path or URL, without trailing slashes and the given ending. */
static struct piece last_part(const char *path, const char *ending)
{
    size_t n = strlen(path);
    const size_t n_ending = strlen(ending);
    while (n > 0 && path[n - 1] == '/') {
        n--;
    }
    if (n > n_ending && strncmp(path + n - n_ending, ending, n_ending) == 0) {
        n -= n_ending;
    }
    size_t from = n;
    while (from > 0 && path[from - 1] != '/' && path[from - 1] != ':') {
        from--;
    }
    return (struct piece){path + from, n - from};
}

static bool is(struct piece piece, const char *text)
{
    return piece.n == strlen(text) && strncmp(piece.at, text, piece.n) == 0;
}

/* Returns the script that the command runs: its first word that ends in .py, or the module after
 * -m. */
static struct piece script_of(const json_t *job)
{
    const json_t *command = json_object_get(job, "command");
    const size_t n = json_array_size(command);
    for (size_t i = 0; i < n; i++) {
        const char *word = json_string_value(json_array_get(command, i));
        const size_t length = strlen(word);
        if (strcmp(word, "-m") == 0 && i + 1 < n) {
            return last_part(json_string_value(json_array_get(command, i + 1)), "");
        }
        if (length > 3 && strcmp(word + length - 3, ".py") == 0) {
            return last_part(word, ".py");
        }
    }
    return last_part(json_string_value(json_array_get(command, 0)), "");
}

/* Returns the directory or repository of the job's files; none for a bundle's digest. */
static struct piece place_of(const json_t *job)
{
    const char *path = job_source(job, "path");
    const char *bundle = job_source(job, "bundle");
    const char *git = job_source(job, "git");
    struct piece place = {NULL, 0};
    if (path || git) {
        place = last_part(path ? path : git, git ? ".git" : "");
    } else if (bundle && !submission_is_digest(bundle)) {
        place = last_part(bundle, "");
    }
    return is(place, ".") || is(place, "..") ? (struct piece){NULL, 0} : place;
}

int job_name_make(json_t *job, const uint8_t random[JOB_NAME_RANDOM], struct tfe_reason *reason)
{
    static const char letters[] =
        "bcdfghjklmnpqrstvwxz2456789"; /* no vowels, so that no words are formed */
    const char *begins = job_text(job, "generate_name");
    struct piece piece = begins ? (struct piece){begins, strlen(begins)} : script_of(job);
    char begin[TFE_ID_MAX - JOB_NAME_RANDOM];
    char name[TFE_ID_MAX + 1];
    struct tfe_id id;
    if (!begins && (piece.n == 0 || is(piece, NAMELESS))) {
        const struct piece place = place_of(job);
        piece = place.n > 0 ? place : (struct piece){NAMELESS, sizeof(NAMELESS) - 1};
    }
    (void)snprintf(begin, sizeof(begin), "%.*s", (int)piece.n, piece.at);
    id_from_text(&id, begin);
    size_t n = strlen(id.text);
    memcpy(name, id.text, n);
    if (!begins) {
        name[n++] = '-';
    }
    for (size_t i = 0; i < JOB_NAME_RANDOM; i++) {
        name[n++] = letters[random[i] % (sizeof(letters) - 1)];
    }
    if (json_object_set_new(job, "name", json_stringn(name, n)) != 0) {
        reason_set(reason, "out of memory");
        return TFE_ENOMEM;
    }
    return 0;
}
