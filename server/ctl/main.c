/* server/ctl/main.c: tfe-ctl: finds the verb, parses its options, runs it. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/version.h"
#include "common/cli/log.h"
#include "common/cli/option_table.h"
#include "common/cli/secret_mem.h"
#include "common/cli/stdio.h"
#include "common/cli/suggest.h"
#include "common/message/msg.h"
#include "server/ctl/verb.h"

/* Returns the verb after this one, NULL for the first, in the order of the help; NULL at the end.
 */
static const struct ctl_verb *next_verb(const struct ctl_verb *verb)
{
    bool is_next = !verb;
    for (size_t group = 0; group < CTL_VERB_GROUPS; group++) {
        for (const struct ctl_verb *const *at = ctl_verb_groups[group].verbs; *at; at++) {
            if (is_next) {
                return *at;
            }
            is_next = *at == verb;
        }
    }
    return NULL;
}

#define USAGE_MAX 96

/* Returns "tfe-ctl VERB [OPTIONS] OPERANDS". */
static const char *usage_of(const struct ctl_verb *verb, char buf[USAGE_MAX])
{
    (void)snprintf(buf, USAGE_MAX, "tfe-ctl %s [OPTIONS]%s%s", verb->name,
                   verb->operands ? " " : "", verb->operands ? verb->operands : "");
    return buf;
}

/* Names that other tools use for some verbs, for suggestions. */
static const struct {
    const char *word;
    const char *verb;
} synonyms[] = {
    {"stop", "cancel"},   {"kill", "cancel"},   {"resize", "scale"}, {"pardon", "unban"},
    {"delete", "forget"}, {"list", "jobs"},     {"ps", "jobs"},      {"get", "jobs"},
    {"run", "submit"},    {"show", "describe"},
};

#define FIELD(name) offsetof(struct ctl_settings, name)

/* Options of every verb. */
static const struct option_spec options[] = {
    TEXT("rdzv-endpoint", endpoint, "HOST:PORT", NULL,
         "address of the server (default: the server of this machine)"),
    TEXT("token-file", token_file, "FILE", NULL,
         "file with the token (default: observer.token or admin.token of the state directory)"),
    TEXT("token", token, "TOKEN", NULL, "the token itself; other users of this machine can see it"),
    TEXT("state-dir", state_dir, "DIR", NULL,
         "directory with the endpoint and tokens of this machine's server"),
    TIME("timeout", timeout_ms, 1, MSG_DURATION_MAX_MS, "10s",
         "maximum time for the complete response"),
    FLAG("json", json, "print one JSON object, for programs"),
};
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

/* Maximum number of options of one verb. */
#define OPTIONS_MAX 24

static const struct option_table no_verb = {
    .program = "tfe-ctl",
    .usage = "tfe-ctl VERB [OPTIONS] [OPERANDS...]",
    .about = "Queries a running tfe-rdzv and controls its jobs.",
    .specs = options,
    .n = N_OPTIONS,
    .stop_at_operand = true,
};

static void print_help(const struct option_table *table)
{
    options_print_help(table, stdout);
    if (table != &no_verb) {
        return;
    }
    (void)printf("\nVerbs (\"tfe-ctl VERB -h\" shows the help of a verb):\n");
    for (size_t group = 0; group < CTL_VERB_GROUPS; group++) {
        (void)printf("\n%s:\n", ctl_verb_groups[group].heading);
        for (const struct ctl_verb *const *at = ctl_verb_groups[group].verbs; *at; at++) {
            (void)printf("  %-12s  %s\n", (*at)->name, (*at)->about);
        }
    }
}

/* Returns how many words of argv name the verb; 0 if they do not. */
static int words_of(const struct ctl_verb *verb, char **argv)
{
    const size_t n = strcspn(verb->name, " ");
    if (strncmp(verb->name, argv[0], n) != 0 || argv[0][n] != '\0') {
        return 0;
    }
    if (verb->name[n] == '\0') {
        return 1;
    }
    return argv[1] && strcmp(verb->name + n + 1, argv[1]) == 0 ? 2 : 0;
}

static const struct ctl_verb *find_verb(char **argv, int *ret_words)
{
    const char *name = argv[0];
    struct suggestion suggestion;
    suggest_init(&suggestion, name, strlen(name));
    for (const struct ctl_verb *verb = next_verb(NULL); verb; verb = next_verb(verb)) {
        *ret_words = words_of(verb, argv);
        if (*ret_words > 0) {
            return verb;
        }
        /* Never suggest an order, which may not be reversible. */
        if (!operation_needs_admin(verb->operation)) {
            suggest_try(&suggestion, verb->name);
        }
    }
    for (size_t i = 0; i < sizeof(synonyms) / sizeof(synonyms[0]); i++) {
        if (strcmp(name, synonyms[i].word) == 0) {
            suggestion.word = synonyms[i].verb;
        }
    }
    (void)fprintf(stderr, "tfe-ctl: unknown verb \"%s\"", name);
    if (suggestion.word) {
        (void)fprintf(stderr, "; did you mean \"%s\"?", suggestion.word);
    }
    (void)fprintf(stderr, " (tfe-ctl -h lists all)\n");
    return NULL;
}

static int usage_error(const char *sentence)
{
    stdio_print_message("tfe-ctl", sentence);
    return CTL_USAGE;
}

/* Parses the options before the first operand; *ret_at is its index (argc if there is none).
 * Returns false if the program ends with *ret_status. */
static bool parse(const struct option_table *table, int argc, char **argv,
                  struct ctl_settings *settings, int *ret_at, int *ret_status)
{
    enum options_result result;
    struct tfe_reason reason;
    char ignored[64];
    *ret_at = argc;
    *ret_status = EXIT_SUCCESS;
    *settings = (struct ctl_settings){.in_ms = MSG_UNSET,
                                      .rank = MSG_UNSET,
                                      .n_ps = MSG_UNSET,
                                      .submit = {.priority = MSG_UNSET, .strategy = MSG_UNSET}};
    if (options_parse(table, argc, argv, settings, &result, ret_at, ignored, sizeof(ignored),
                      &reason) != 0) {
        *ret_status = usage_error(reason.text);
        return false;
    }
    if (result == OPTIONS_HELP) {
        print_help(table);
    } else if (result == OPTIONS_VERSION) {
        (void)printf("tfe-ctl %s (%s)\n", TFE_VERSION, tfe_commit);
    }
    return result == OPTIONS_RUN;
}

/* Options may stand before, between and after operands. The parser stops at the first operand, so
 * it runs again without the operands found so far until it finds none; each run parses all options
 * anew. After "--" there are only operands. */
static int run_verb(const struct ctl_verb *verb, int argc, char **argv)
{
    struct option_spec specs[N_OPTIONS + OPTIONS_MAX];
    struct option_table table = no_verb;
    struct ctl_settings settings;
    char usage[USAGE_MAX];
    const char *operands[2] = {NULL, NULL};
    char *const *command = NULL;
    size_t n_command = 0;
    int n_operands = 0;
    int at;
    int status;
    TFE_ASSERT(verb->n_options <= OPTIONS_MAX);
    memcpy(specs, options, sizeof(options));
    if (verb->n_options > 0) {
        memcpy(specs + N_OPTIONS, verb->options, verb->n_options * sizeof(specs[0]));
    }
    table.usage = usage_of(verb, usage);
    table.about = verb->about;
    table.specs = specs;
    table.n = N_OPTIONS + verb->n_options;
    while (parse(&table, argc, argv, &settings, &at, &status)) {
        if (at == argc) {
            struct tfe_reason reason;
            int n_expected = (verb->operand != CTL_NONE) + verb->takes_sizes;
            const bool is_optional = verb->operands && verb->operands[0] == '[';
            if (n_operands > n_expected || (n_operands < n_expected && !is_optional)) {
                (void)fprintf(stderr, "tfe-ctl: usage: %s\n", usage);
                return CTL_USAGE;
            }
            if (verb->takes_sizes &&
                options_nodes(operands[1], &settings.min_nodes, &settings.max_nodes, &reason)) {
                stdio_print_message("tfe-ctl", reason.text);
                return CTL_USAGE;
            }
            settings.submit.command = command;
            settings.submit.n_command = n_command;
            return verb_run(verb, &settings, operands[0]);
        }
        if (verb->takes_command && strcmp(argv[at - 1], "--") == 0) {
            command = argv + at;
            n_command = (size_t)(argc - at);
            argc = at - 1;
            continue;
        }
        operands[n_operands < 1 ? 0 : 1] = argv[at];
        if (strcmp(argv[at - 1], "--") == 0) {
            operands[1] = n_operands < 1 && at + 1 < argc ? argv[at + 1] : operands[1];
            n_operands += argc - at;
            argc = at - 1;
        } else {
            n_operands++;
            argc--;
            memmove(&argv[at], &argv[at + 1], (size_t)(argc - at) * sizeof(*argv));
        }
    }
    return status;
}

/* Handles "help token" and "token -h": prints help of all verbs that begin with this word. Returns
 * false if argv does not ask for that. */
static bool help_group(char **argv, int argc)
{
    const bool is_help = argc == 2 && strcmp(argv[0], "help") == 0;
    const bool is_option =
        argc == 2 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0);
    const char *name = argv[is_help ? 1 : 0];
    const size_t n = strlen(name);
    bool is_any = false;
    if (!is_help && !is_option) {
        return false;
    }
    for (const struct ctl_verb *verb = next_verb(NULL); verb; verb = next_verb(verb)) {
        if (strncmp(verb->name, name, n) == 0 && verb->name[n] == ' ') {
            char usage[USAGE_MAX];
            (void)printf("%s\n    %s\n", usage_of(verb, usage), verb->about);
            is_any = true;
        }
    }
    return is_any;
}

static int run(int argc, char **argv)
{
    struct ctl_settings settings;
    int at;
    int status;
    if (!parse(&no_verb, argc, argv, &settings, &at, &status)) {
        return status;
    }
    if (at >= argc) {
        return usage_error("no verb given (tfe-ctl -h lists all)");
    }
    if (help_group(argv + at, argc - at)) {
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[at], "help") == 0) { /* "help VERB" is "VERB -h" */
        char *word = memcpy(argv[at], "-h", sizeof "-h");
        if (at + 1 == argc) {
            print_help(&no_verb);
            return EXIT_SUCCESS;
        }
        memmove(&argv[at], &argv[at + 1], (size_t)(argc - at - 1) * sizeof(*argv));
        argv[argc - 1] = word;
    }
    int words;
    const struct ctl_verb *verb = find_verb(&argv[at], &words);
    if (!verb) {
        return CTL_USAGE;
    }
    memmove(&argv[at], &argv[at + words], (size_t)(argc - at - words + 1) * sizeof(*argv));
    return run_verb(verb, argc - words, argv);
}

/* Returns true if stdout is a pipe without a reader. */
static bool is_unread(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int main(int argc, char **argv)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL);
    struct tfe_reason reason;
    /* A variable that agents set for trainers is no option of tfe-ctl. */
    (void)unsetenv("TFE_RANK");
    (void)unsetenv("TFE_NODE");
    (void)unsetenv("TFE_EPOCH");
    log_init("tfe-ctl", LOG_WARN_, LOG_LOGFMT);
    if (secret_mem_protect_process(&reason) != 0) {
        stdio_print_message("tfe-ctl", reason.text);
        return CTL_FAILED;
    }
    int status = run(argc, argv);
    /* A full disk behind a redirection must not look like a success. A reader that has read enough
     * (head) needs no message: the program ends as by SIGPIPE. */
    const bool is_written = fflush(stdout) == 0 && !ferror(stdout);
    if (!is_written && is_unread()) {
        return 128 + SIGPIPE;
    }
    if (!is_written) {
        (void)fprintf(stderr, "tfe-ctl: cannot write the response to stdout\n");
        return status != EXIT_SUCCESS ? status : CTL_FAILED;
    }
    return status;
}
