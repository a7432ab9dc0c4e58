/* server/ctl/cmd_submit.c: tfe-ctl submit: submits a job described by a job file or the command
 * line. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/cli/option_table.h"
#include "common/cli/stdio.h"
#include "common/job/job_file.h"
#include "common/job/job_name.h"
#include "common/records/schemas.h"
#include "common/text/git_url.h"
#include "server/ctl/bundle_pack.h"
#include "server/ctl/cmd_logs.h"
#include "server/ctl/git.h"
#include "server/ctl/jobs/job_text.h"
#include "server/ctl/jobs/yaml_tree.h"
#include "server/ctl/request.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, submit.name)
/* Interval of checks whether the job is over. */
#define POLL_NS 200000000L

/* Reads the file, up to one byte more than the maximum size of a job file. The caller frees *ret.
 */
static int read_file(const char *name, char **ret, size_t *ret_n, struct tfe_reason *reason)
{
    const size_t buf = YAML_TREE_BYTES_MAX + 1;
    bool is_stdin = strcmp(name, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(name, "re");
    char *text = file ? malloc(buf) : NULL;
    int rc = 0;
    if (!file) {
        reason_errno(reason, "open %s", name);
        return TFE_ESYS;
    }
    if (!text) {
        reason_set(reason, "out of memory");
        rc = TFE_ENOMEM;
    } else {
        *ret_n = fread(text, 1, buf, file);
        if (ferror(file)) {
            reason_errno(reason, "read %s", name);
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

static int read_job(const char *name, json_t **ret, struct tfe_reason *reason)
{
    char *text;
    size_t n;
    int rc = read_file(name, &text, &n, reason);
    if (rc) {
        return rc;
    }
    rc = job_text_read(text, n, ret, reason);
    free(text);
    if (rc) {
        reason_prefix(reason, "%s", name);
    }
    return rc;
}

/* --- additions of the command line --- */

static const char *const strategies[] = {"AllReduce", "ParameterServer", NULL};

static int no_memory(struct tfe_reason *reason)
{
    reason_set(reason, "out of memory");
    return TFE_ENOMEM;
}

/* Adds members to the job's field; they override those of the file. */
static bool put_pairs(json_t *job, const char *field, const struct submit_pairs *pairs)
{
    json_t *object = json_object_get(job, field);
    bool is_put = true;
    if (pairs->n > 0 && !json_is_object(object)) {
        object = json_object();
        is_put = json_object_set_new(job, field, object) == 0;
    }
    for (size_t i = 0; i < pairs->n && is_put; i++) {
        const char *text = pairs->v[i];
        size_t n = strcspn(text, "=");
        json_t *value = text[n] ? json_string(text + n + 1) : json_true();
        is_put = json_object_setn_new(object, text, n, value) == 0;
    }
    return is_put;
}

static bool put(json_t *job, const char *field, bool is_set, json_t *value)
{
    if (!is_set) {
        json_decref(value);
        return true;
    }
    return json_object_set_new(job, field, value) == 0;
}

static bool put_command(json_t *job, const struct submit_options *opts)
{
    json_t *words = json_array();
    bool is_put = words;
    for (size_t i = 0; i < opts->n_command && is_put; i++) {
        is_put = json_array_append_new(words, json_string(opts->command[i])) == 0;
    }
    return put(job, "command", opts->command != NULL, words) && is_put;
}

/* Returns the source that --path, --bundle or --git gives. */
static json_t *source_of(const struct submit_options *opts)
{
    if (opts->path || opts->bundle) {
        return json_pack("{ss}", opts->path ? "path" : "bundle",
                         opts->path ? opts->path : opts->bundle);
    }
    const char *git = opts->git ? opts->git : "";
    const size_t n = git_url_length(git);
    return json_pack("{ss%ss*}", "git", git, n, "ref",
                     git[n] != '\0' && git[n + 1] != '\0' ? git + n + 1 : NULL);
}

/* Returns TFE_EINVAL if options contradict each other. */
static int put_options(json_t *job, const struct submit_options *opts, struct tfe_reason *reason)
{
    const bool is_ps = opts->strategy == 1;
    if (opts->strategy == 0 && opts->n_ps > 0) {
        reason_set(reason, "--ps: an AllReduce job has no parameter servers");
        return TFE_EINVAL;
    }
    if (!!opts->path + !!opts->bundle + !!opts->git > 1) {
        reason_set(reason, "--path, --bundle and --git exclude each other");
        return TFE_EINVAL;
    }
    bool is_put =
        put(job, "name", opts->name, json_string(opts->name ? opts->name : "")) &&
        put(job, "priority", opts->priority != MSG_UNSET, json_integer(opts->priority)) &&
        put(job, "workers", opts->min_nodes > 0,
            json_pack("{sIsI}", "min", (json_int_t)opts->min_nodes, "max",
                      (json_int_t)opts->max_nodes)) &&
        put(job, "ps", opts->n_ps > 0 || (is_ps && !json_integer_value(json_object_get(job, "ps"))),
            json_integer(opts->n_ps > 0 ? opts->n_ps : 1)) &&
        put(job, "chief", opts->chief || is_ps, json_true()) &&
        put(job, "evaluator", opts->evaluator, json_true()) &&
        put(job, "nproc", opts->nproc > 0, json_integer(opts->nproc)) &&
        put(job, "source", opts->path || opts->bundle || opts->git, source_of(opts)) &&
        put(job, "work_dir", opts->work_dir, json_string(opts->work_dir ? opts->work_dir : "")) &&
        put(job, "image", opts->image, json_string(opts->image ? opts->image : "")) &&
        put(job, "preempt", opts->preempt, json_true()) &&
        put(job, "suspend", opts->suspend, json_true()) && put_pairs(job, "env", &opts->env) &&
        put_pairs(job, "labels", &opts->labels) && put_pairs(job, "options", &opts->options) &&
        put_command(job, opts);
    return is_put ? 0 : no_memory(reason);
}

/* Makes the canonical form of the job from file and command line. */
static int make_job(const struct submit_options *opts, json_t **ret, struct tfe_reason *reason)
{
    json_t *job = NULL;
    int rc = 0;
    if (opts->file) {
        rc = read_job(opts->file, &job, reason);
    } else {
        job = json_object();
    }
    rc = rc || job ? rc : no_memory(reason);
    rc = rc ? rc : put_options(job, opts, reason);
    rc = rc ? rc : job_file_read(job, ret, reason);
    json_decref(job);
    if (rc == 0) {
        struct tfe_reason warning;
        job_file_warn(*ret, &warning);
        if (*warning.text) {
            stdio_print_message("tfe-ctl", warning.text);
        }
    }
    return rc;
}

static int write_bundle(const char *name, const struct bundle *bundle, struct tfe_reason *reason)
{
    FILE *file = fopen(name, "we");
    bool is_written = file && fwrite(bundle->bytes, 1, bundle->n, file) == bundle->n;
    is_written = file && fclose(file) == 0 && is_written;
    if (!is_written) {
        reason_errno(reason, "write %s", name);
    }
    return is_written ? 0 : TFE_ESYS;
}

/* Fixes the present state of the files: the job's source becomes a digest or a commit, so that
 * later changes of the directory or branch have no effect. *ret is a packed directory, if there is
 * one. */
static int fix_source(json_t *job, const struct submit_options *opts, struct bundle *ret,
                      struct tfe_reason *reason)
{
    const bool dry_run = opts->dry_run && !opts->bundle_out;
    json_t *source = json_object_get(job, "source");
    const char *bundle = job_source(job, "bundle");
    const char *git = job_source(job, "git");
    const char *ref = job_source(job, "ref");
    char commit[GIT_COMMIT_MAX + 1];
    int rc = 0;
    bool is_put = true;
    if (bundle && !submission_is_digest(bundle)) {
        rc = bundle_pack(bundle, ret, reason);
        if (rc == 0 && dry_run) {
            (void)fprintf(stderr, "tfe-ctl: bundle %s: %u files, %zu bytes, %s\n", bundle,
                          (unsigned)ret->n_files, ret->n, ret->digest);
        }
        rc = rc == 0 && opts->bundle_out ? write_bundle(opts->bundle_out, ret, reason) : rc;
        is_put = rc != 0 || dry_run ||
                 json_object_set_new(source, "bundle", json_string(ret->digest)) == 0;
    } else if (git && !dry_run) {
        rc = git_resolve(git, ref ? ref : "", commit, reason);
        is_put = rc != 0 || json_object_set_new(source, "ref", json_string(commit)) == 0;
    }
    if (rc == 0 && opts->bundle_out && ret->n == 0) {
        reason_set(reason, "--bundle-out: the job's files are not a directory on this machine");
        rc = TFE_EINVAL;
    }
    return is_put ? rc : no_memory(reason);
}

/* --- submission --- */

/* A job whose output is shown. */
struct watched {
    const struct ctl_settings *settings;
    const char *name;
    bool is_known;
    bool is_over;
    bool has_run;
    int status; /* exit code of the last query */
};

/* Returns true if the job is over or unknown. ctx is a struct watched. */
static bool is_over(void *ctx)
{
    struct watched *w = ctx;
    struct record_list rows = {.v = NULL};
    w->status = verb_request(w->settings, OPERATION_CONDITIONS, w->name, &rows);
    w->is_known = false;
    for (size_t i = 0; i < rows.n; i++) {
        const struct msg_condition_row *c = rows.v[i].at;
        const struct msg_status_job *job = rows.v[i].at;
        if (rows.v[i].schema == &schema_job) {
            w->is_known = true;
            w->is_over = msg_job_is_over(job->state);
        } else if (rows.v[i].schema == &schema_condition) {
            w->has_run = w->has_run || strcmp(c->name, "Running") == 0;
        }
    }
    record_list_done(&rows);
    return w->is_over || !w->is_known;
}

static bool has_begun(void *ctx)
{
    struct watched *w = ctx;
    return is_over(w) || w->has_run;
}

/* Shows the output of the job's trainers, from the first line to the last. */
static int show_logs(const struct ctl_settings *settings, const char *name)
{
    struct watched w = {.settings = settings, .name = name};
    while (!has_begun(&w)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    if (w.status != EXIT_SUCCESS || !w.has_run) {
        return w.status; /* verb_wait() prints why it never ran */
    }
    return logs_follow(settings, name, is_over, &w);
}

/* Sends SUBMIT; if a generated name is in use, generates another one. Returns an exit code. */
static int send_submit(const struct ctl_settings *settings, json_t *job)
{
    const bool is_made = job_name_is_wanted(job);
    bool is_taken = true;
    int status = CTL_FAILED;
    for (unsigned i = 0; i < JOB_NAME_TRIES && is_taken; i++) {
        struct tfe_reason reason;
        struct record_list rows = {.v = NULL};
        uint8_t random[JOB_NAME_RANDOM];
        randombytes_buf(random, sizeof(random));
        char *spec = is_made && job_name_make(job, random, &reason) ? NULL : job_file_format(job);
        if (!spec) {
            stdio_print_message("tfe-ctl", "out of memory");
            return CTL_FAILED;
        }
        const struct tfe_msg message = {.type = MSG_SUBMIT,
                                        .u.submit = {.job = job_text(job, "name"), .spec = spec}};
        const bool is_last = !is_made || i + 1 == JOB_NAME_TRIES;
        status = request_run_but(settings, &message, &rows,
                                 is_last ? (enum tfe_refusal)0 : REFUSAL_CONFLICT, &is_taken);
        record_list_done(&rows);
        free(spec);
    }
    return status;
}

static int submit(const struct ctl_verb *verb, struct ctl_settings *settings, json_t *job,
                  const struct bundle *bundle)
{
    int status = request_find_server(settings, true);
    if (status == EXIT_SUCCESS && bundle->n > 0) {
        status = bundle_put(settings, bundle);
    }
    settings->since = clock_wall(); /* skip the output of an earlier job of this name */
    if (status == EXIT_SUCCESS) {
        status = send_submit(settings, job);
    }
    const char *name = job_text(job, "name");
    if (status == EXIT_SUCCESS && !settings->json) {
        (void)printf("job %s is submitted\n", name);
        if (json_object_size(json_object_get(job, "source")) == 0) {
            (void)fputs("tfe-ctl: warning: no --bundle, --path or --git: the job runs in an empty "
                        "directory\n",
                        stderr);
        }
    } else if (status == EXIT_SUCCESS && !settings->wait &&
               verb_print_json(json_pack("{ssss}", "done", verb->name, "job", name)) != 0) {
        status = CTL_FAILED;
    }
    (void)fflush(stdout);
    if (status == EXIT_SUCCESS && settings->submit.logs) {
        status = show_logs(settings, name);
    }
    if (status == EXIT_SUCCESS && settings->wait) {
        status = verb_wait(settings, name);
    }
    return status;
}

static int run(const struct ctl_verb *verb, const struct ctl_settings *settings,
               const char *operand)
{
    struct tfe_reason reason;
    struct ctl_settings own = *settings; /* a submission needs an admin's token, which is looked up
                                            here together with the endpoint */
    const struct submit_options *opts = &settings->submit;
    struct bundle bundle = {.bytes = NULL};
    json_t *job;
    if (!opts->file && !opts->command && !opts->bundle && !opts->git && !opts->path) {
        stdio_print_message("tfe-ctl", "submit: no job given (use --file FILE, with - for stdin, "
                                       "or a command after --, or the location of its files)");
        return CTL_USAGE;
    }
    int rc = make_job(opts, &job, &reason);
    if (rc) {
        stdio_print_message("tfe-ctl", reason.text);
        return opts->file ? CTL_FAILED : CTL_USAGE;
    }
    if (sodium_init() < 0 || fix_source(job, opts, &bundle, &reason)) {
        stdio_print_message("tfe-ctl", reason.text);
        json_decref(job);
        return CTL_FAILED;
    }
    int status;
    if (opts->dry_run || opts->bundle_out) {
        char *text = json_dumps(job, JSON_INDENT(2));
        if (text) {
            stdio_print_escaped(stdout, text); /* the escapes are those of JSON */
        }
        status = text && putchar('\n') != EOF ? EXIT_SUCCESS : CTL_FAILED;
        free(text);
    } else {
        status = submit(verb, &own, job, &bundle);
    }
    bundle_done(&bundle);
    json_decref(job);
    join_done(&own.server);
    return status;
}

/* --- options --- */

/* The job file's parser validates the value. */
static int parse_pair(void *pairs, const char *value, struct tfe_reason *reason)
{
    struct submit_pairs *ret = pairs;
    if (ret->n == MSG_WORDS_MAX || value[0] == '=' || value[0] == '\0') {
        reason_set(reason, "expected NAME=VALUE, at most %u times", MSG_WORDS_MAX);
        return TFE_EINVAL;
    }
    ret->v[ret->n++] = value;
    return 0;
}

static int parse_full_pair(void *pairs, const char *value, struct tfe_reason *reason)
{
    if (!strchr(value, '=')) {
        reason_set(reason, "\"%.64s\" is not NAME=VALUE", value);
        return TFE_EINVAL;
    }
    return parse_pair(pairs, value, reason);
}

static int parse_workers(void *opts, const char *value, struct tfe_reason *reason)
{
    struct submit_options *ret = opts;
    return options_nodes(value, &ret->min_nodes, &ret->max_nodes, reason);
}

static const struct option_spec options[] = {
    OPTION_ROW(OPTION_TEXT, "file", "FILE", NULL,
               "job file or Kubeflow TFJob manifest; - reads stdin", .letter = 'f',
               .offset = FIELD(file)),
    TEXT("name", name, "JOB", NULL,
         "name of the job (default: generated); this and the following options override the file"),
    OPTION_ROW(OPTION_PARSE, "workers", "MIN:MAX", NULL,
               "minimum and maximum number of worker nodes", .parse = parse_workers,
               .offset = offsetof(struct ctl_settings, submit)),
    {.name = "worker-num", .alias_of = "workers"},
    NUMBER("ps", n_ps, "N", 1, MSG_NODES_MAX, NULL,
           "number of parameter servers, each on an additional node"),
    FLAG("chief", chief, "add a node for the chief"),
    FLAG("evaluator", evaluator, "add a node for the evaluator"),
    WORD("strategy", strategy, strategies, "NAME", NULL,
         "AllReduce, or ParameterServer: a chief, and one ps unless --ps is given"),
    NUMBER("nproc-per-node", nproc, "N", 1, MSG_NPROC_MAX, NULL, "number of trainers per node"),
    TEXT("path", path, "DIR", NULL, "job files: a directory that exists on every node"),
    TEXT("bundle", bundle, "DIR", NULL,
         "job files: this directory, except files that .gitignore excludes"),
    TEXT("git", git, "URL@REF", NULL,
         "job files: a repository at the current commit of REF (default: HEAD)"),
    TEXT("work-dir", work_dir, "DIR", NULL,
         "working directory, absolute or relative to the job files"),
    TEXT("image", image, "IMAGE", NULL,
         "container image for the trainers, on nodes with --runtime"),
    PARSE_FIELD("env", env, parse_full_pair, "K=V", NULL,
                "environment variable of the trainers; may be repeated"),
    PARSE_FIELD("label", labels, parse_full_pair, "K=V", NULL,
                "label that nodes must have; may be repeated"),
    PARSE_FIELD("option", options, parse_pair, "NAME=VALUE", NULL,
                "tfe-agent option that a job may set; may be repeated"),
    NUMBER("priority", priority, "N", 0, MSG_PRIORITY_MAX, NULL,
           "priority from 0 to 1000, highest first (default: the file's, else 500)"),
    FLAG("preempt", preempt, "preempt jobs of lower priority to reach the minimum"),
    FLAG("suspend", suspend, "submit the job suspended, until tfe-ctl resume"),
    FLAG("logs", logs, "show the output of its trainers until it ends, as logs --follow"),
    FLAG("dry-run", dry_run, "print the job as JSON without contacting the server"),
    TEXT("bundle-out", bundle_out, "FILE", NULL,
         "write the bundle to FILE and print the job for an HTTP upload, without contacting the "
         "server"),
    OPTION_ROW(OPTION_FLAG, "wait", NULL, NULL,
               "wait until it ends; exit 0 if it succeeded, else 1",
               .offset = offsetof(struct ctl_settings, wait)),
};

const struct ctl_verb ctl_verb_submit = {
    .name = "submit",
    .operands = "[--file FILE] [-- COMMAND...]",
    .about = "submit a job to the pool: a job file, a TFJob manifest, or a command",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .operand = CTL_NONE,
    .takes_command = true,
    .is_local = true,
    .operation = OPERATION_SUBMIT,
    .run = run,
};
