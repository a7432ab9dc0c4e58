/* server/ctl/main.c: tfe-ctl: finds the verb, reads its options, runs it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/msg.h"
#include "common/net/log.h"
#include "server/ctl/settings.h"
#include "server/ctl/verb.h"

static const struct ctl_verb *const verbs[] = {
    &ctl_verb_status, &ctl_verb_nodes, &ctl_verb_epochs, &ctl_verb_drain,
    &ctl_verb_evict,  &ctl_verb_stop,  &ctl_verb_backup,
};
#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* ctl_options and one verb's own. */
#define OPTIONS_MAX 32

/* As many operands as a command line of ours can sensibly have. */
#define OPERANDS_MAX 64

static const struct option_table *global_table(void)
{
    static struct option_table table = {
        .program = "tfe-ctl",
        .usage = "tfe-ctl VERB [OPTIONS] [OPERANDS...]",
        .about = "Asks a running tfe-rdzv about its jobs, or tells it what to do with them.",
        .specs = ctl_options,
        .stop_at_operand = true,
    };
    table.n = ctl_n_options;
    return &table;
}

static void print_help(void)
{
    options_print_help(global_table(), stdout);
    (void)printf("\nVerbs (\"tfe-ctl VERB -h\" tells more of one):\n");
    for (size_t i = 0; i < N_VERBS; i++) {
        (void)printf("  %-10s %s\n", verbs[i]->name, verbs[i]->about);
    }
}

/* Edits that make b of a (insert, delete, replace); long words are as far away as they are long. */
static size_t distance(const char *a, const char *b)
{
    size_t row[32];
    size_t n = strlen(b);
    if (n >= sizeof(row) / sizeof(row[0])) {
        return n;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t best = corner + (a[i] != b[j] ? 1 : 0);
            corner = row[j + 1];
            best = best < row[j] + 1 ? best : row[j] + 1;
            row[j + 1] = best < corner + 1 ? best : corner + 1;
        }
    }
    return row[n];
}

static const struct ctl_verb *find_verb(const char *name)
{
    const struct ctl_verb *nearest = verbs[0];
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i]->name, name) == 0) {
            return verbs[i];
        }
        if (distance(name, verbs[i]->name) < distance(name, nearest->name)) {
            nearest = verbs[i];
        }
    }
    (void)fprintf(stderr,
                  "tfe-ctl: unknown verb \"%s\"; did you mean \"%s\"? (tfe-ctl -h lists all)\n",
                  name, nearest->name);
    return NULL;
}

static int usage_error(const char *sentence)
{
    (void)fprintf(stderr, "tfe-ctl: %s\n", sentence);
    return CTL_USAGE;
}

/* Options may stand before, between and behind operands. The option parser stops at the first
 * operand, so it is run again without the operands found so far, until it meets none: each run
 * reads all options anew. argv is cut down to the options; behind "--" there are only operands. */
static int parse(const struct option_table *table, int *argc, char **argv,
                 struct ctl_settings *settings, enum options_result *result,
                 char *operands[OPERANDS_MAX], int *n_operands)
{
    struct tfe_why why;
    char ignored[64];
    *n_operands = 0;
    for (;;) {
        int at = *argc;
        *settings = (struct ctl_settings){.in_ms = MSG_UNSET};
        if (options_parse(table, *argc, argv, settings, result, &at, ignored, sizeof(ignored),
                          &why) != 0) {
            return usage_error(why.text);
        }
        if (*result != OPTIONS_RUN || at >= *argc) {
            return 0;
        }
        bool rest = strcmp(argv[at - 1], "--") == 0;
        int n = rest ? *argc - at : 1;
        if (*n_operands + n > OPERANDS_MAX) {
            return usage_error("too many operands");
        }
        for (int i = 0; i < n; i++) {
            operands[(*n_operands)++] = argv[at + i];
        }
        int cut = rest ? at - 1 : at;
        int behind = at + n;
        memmove(&argv[cut], &argv[behind], (size_t)(*argc - behind + 1) * sizeof(*argv));
        *argc -= behind - cut;
    }
}

static int print_version(void)
{
    (void)printf("tfe-ctl %s\n", TFE_VERSION);
    return EXIT_SUCCESS;
}

static int run_verb(const struct ctl_verb *verb, int argc, char **argv)
{
    struct option_spec specs[OPTIONS_MAX];
    struct option_table table = *global_table();
    struct ctl_settings settings;
    enum options_result result;
    char *operands[OPERANDS_MAX];
    int n_operands;
    if (ctl_n_options + verb->n_options > OPTIONS_MAX) {
        return usage_error("the verb has more options than tfe-ctl can hold");
    }
    memcpy(specs, ctl_options, ctl_n_options * sizeof(specs[0]));
    if (verb->n_options > 0) {
        memcpy(specs + ctl_n_options, verb->options, verb->n_options * sizeof(specs[0]));
    }
    table.usage = verb->usage;
    table.about = verb->about;
    table.specs = specs;
    table.n = ctl_n_options + verb->n_options;
    int status = parse(&table, &argc, argv, &settings, &result, operands, &n_operands);
    if (status != 0) {
        return status;
    }
    if (result == OPTIONS_HELP) {
        options_print_help(&table, stdout);
        return EXIT_SUCCESS;
    }
    if (result == OPTIONS_VERSION) {
        return print_version();
    }
    if (n_operands < verb->operands_min || n_operands > verb->operands_max) {
        (void)fprintf(stderr, "tfe-ctl: usage: %s\n", verb->usage);
        return CTL_USAGE;
    }
    return verb->run(&settings, operands, n_operands);
}

static int run(int argc, char **argv)
{
    struct ctl_settings settings = {.endpoint = NULL};
    enum options_result result;
    struct tfe_why why;
    char ignored[64];
    int at = argc;
    if (options_parse(global_table(), argc, argv, &settings, &result, &at, ignored, sizeof(ignored),
                      &why) != 0) {
        return usage_error(why.text);
    }
    if (result == OPTIONS_HELP) {
        print_help();
        return EXIT_SUCCESS;
    }
    if (result == OPTIONS_VERSION) {
        return print_version();
    }
    if (at >= argc) {
        return usage_error("which verb? (tfe-ctl -h lists all)");
    }
    const struct ctl_verb *verb = find_verb(argv[at]);
    if (verb == NULL) {
        return CTL_USAGE;
    }
    memmove(&argv[at], &argv[at + 1], (size_t)(argc - at) * sizeof(*argv));
    return run_verb(verb, argc - 1, argv);
}

int main(int argc, char **argv)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL);
    log_init("tfe-ctl", LOG_WARN_, LOG_LOGFMT);
    int status = run(argc, argv);
    /* A full disk behind a redirection must not look like an answer. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "tfe-ctl: the answer cannot be written to stdout\n");
        return status != EXIT_SUCCESS ? status : CTL_FAILED;
    }
    return status;
}
