/* server/ctl/submit.c: tfe-ctl submit: what a job file hands in. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/option_table.h"
#include "common/net/stdio.h"
#include "server/ctl/jobs/job_file.h"
#include "server/ctl/jobs/yaml_tree.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

/* The file's bytes, one more than a job file may have at most; the caller frees *ret. */
static int read_file(const char *name, char **ret, size_t *ret_n, struct tfe_why *why)
{
    const size_t room = YAML_TREE_BYTES_MAX + 1;
    bool is_stdin = strcmp(name, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(name, "re");
    char *text = file ? malloc(room) : NULL;
    int rc = 0;
    if (!file) {
        why_errno(why, "open %s", name);
        return TFE_ESYS;
    }
    if (!text) {
        why_set(why, "out of memory");
        rc = TFE_ENOMEM;
    } else {
        *ret_n = fread(text, 1, room, file);
        if (ferror(file)) {
            why_errno(why, "read %s", name);
            rc = TFE_ESYS;
        }
    }
    if (!is_stdin) {
        (void)fclose(file);
    }
    if (rc) {
        free(text);
        return rc;
    }
    *ret = text;
    return 0;
}

static int read_job(const char *name, json_t **ret, struct tfe_why *why)
{
    char *text;
    size_t n;
    struct tfe_why warning;
    int rc = read_file(name, &text, &n, why);
    if (rc) {
        return rc;
    }
    rc = job_file_parse(text, n, ret, &warning, why);
    free(text);
    if (rc) {
        why_prefix(why, "%s", name);
    } else if (*warning.text) {
        stdio_say("tfe-ctl", warning.text);
    }
    return rc;
}

static int run(const struct ctl_verb *verb, const struct ctl_settings *settings,
               const char *operand)
{
    struct tfe_why why;
    json_t *job;
    if (!settings->file) {
        stdio_say("tfe-ctl", "submit: which job? --file FILE names it, - is stdin");
        return CTL_USAGE;
    }
    if (!settings->dry_run) {
        stdio_say("tfe-ctl", "submit: servers take no jobs yet; --dry-run shows what this one is");
        return CTL_USAGE;
    }
    if (read_job(settings->file, &job, &why)) {
        stdio_say("tfe-ctl", why.text);
        return CTL_FAILED;
    }
    bool is_printed = json_dumpf(job, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;
    json_decref(job);
    return is_printed ? EXIT_SUCCESS : CTL_FAILED;
}

static const struct option_spec options[] = {
    OPTION_ROW(OPTION_TEXT, "file", "FILE", NULL,
               "the job: a job file, or a manifest of Kubeflow's TFJob; - is stdin", .letter = 'f',
               .offset = FIELD(file)),
    FLAG("dry-run", dry_run, "print the job with all its fields, as JSON, and ask nobody"),
};

const struct ctl_verb ctl_verb_submit = {
    .name = "submit",
    .usage = "tfe-ctl submit --dry-run --file FILE",
    .about = "show what a job file or a TFJob manifest asks for",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .operand = CTL_NONE,
    .asks_nobody = true,
    .run = run,
};
