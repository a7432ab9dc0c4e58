/* server/ctl/verb.h: a subcommand (verb) of tfe-ctl; verbs.c has their table. */
#ifndef TFE_SERVER_CTL_VERB_H
#define TFE_SERVER_CTL_VERB_H

#include <jansson.h>

#include "common/cli/options.h"
#include "common/credentials/join.h"
#include "common/message/msg.h"
#include "common/records/operations.h"
#include "common/records/record.h"
#include "common/records/text_table.h"

/* Values of all options. Texts are borrowed from argv and the environment. */
struct ctl_settings {
    const char *endpoint;
    char *token;
    const char *token_file;
    const char *state_dir;
    uint32_t timeout_ms;
    bool json;
    bool csv;                      /* verb epochs */
    uint32_t in_ms;                /* verb drain; MSG_UNSET if no time is given */
    bool wait;                     /* verbs drain and demand */
    bool all;                      /* verb status */
    bool verify;                   /* verb audit */
    uint32_t last;                 /* verb events */
    uint32_t sort;                 /* verb nodes: index of the sort key */
    uint32_t for_ms;               /* verb evict */
    uint32_t min_nodes, max_nodes; /* verb scale */
    uint32_t n_ps;                 /* verb scale; MSG_UNSET to leave it unchanged */
    /* options of token create */
    uint32_t role; /* an enum principal_role */
    const char *job;
    const char *label; /* NULL if none */
    uint32_t ttl_ms;
    uint32_t uses;
    uint32_t quota;
    bool install, use, remove; /* options of token rotate */
    /* options of logs */
    uint32_t rank; /* MSG_UNSET for all ranks */
    const char *node;
    uint64_t of_epoch; /* 0 for the newest epoch and what is available of earlier ones */
    bool follow;
    uint32_t lines; /* MSG_UNSET for all lines */
    struct tfe_wall since;
    bool progress;          /* verb wait */
    struct submit_options { /* options of submit */
        const char *file;   /* NULL if not given */
        bool dry_run;
        const char *name, *path, *bundle, *git, *work_dir, *image; /* each NULL if not given */
        const char *bundle_out;
        uint32_t min_nodes, max_nodes; /* each 0 if not given */
        uint32_t n_ps, nproc;
        uint32_t strategy; /* index of the strategy's name */
        uint32_t priority; /* MSG_UNSET if not given */
        bool chief, evaluator, preempt, suspend;
        bool logs;
        struct submit_pairs { /* options of the form K=V */
            const char *v[MSG_WORDS_MAX];
            size_t n;
        } env, labels, options;
        char *const *command; /* arguments after "--"; NULL if there are none */
        size_t n_command;
    } submit;
    struct join_info server;
};

/* Exit codes of tfe-ctl besides EXIT_SUCCESS; 69 and 77 are those of sysexits(3). */
enum ctl_exit {
    CTL_FAILED = 1, /* no such job or node, and all errors without a code of their own */
    CTL_USAGE = 2,
    CTL_UNREACHED = 69,
    CTL_UNAUTHORISED = 77
};

/* What the operand names (NONE: there is no operand); checked before a request is sent. */
enum ctl_operand { CTL_NONE, CTL_JOB, CTL_NODE, CTL_FILE, CTL_KEY };

/* A verb: a query that shows records, or an order. */
struct ctl_verb {
    const char *name;     /* one word or two, as "token list" */
    const char *operands; /* as the usage shows them, in [] if they may be left out; NULL if there
                             are none */
    const char *about;    /* one line for both help texts */
    /* Options of this verb alone; their fields are in struct ctl_settings. */
    const struct option_spec *options;
    size_t n_options;
    bool takes_sizes;   /* MIN:MAX follow the operand */
    bool takes_command; /* a command follows "--", and there are no other operands */
    bool finds_job; /* without an operand, the only job or the only one that is not over is used */
    enum ctl_operand operand;

    bool is_local; /* the verb needs no server and no token */

    /* The request, and a function that fills in its values besides the operand, or NULL. */
    enum operation_id operation;
    void (*set_request)(const struct ctl_settings *settings, struct tfe_msg *request);

    /* Query: the table to print, and the text if it has no rows, NULL for nothing; or, without a
     * table, a function that prints the arranged records. It returns 0, TFE_ENOMEM, TFE_ESTATE if
     * the records are inconsistent, or TFE_EAUTH if they must not be trusted, after printing why.
     * --json prints the operation's document instead, unless show does that, too. */
    struct text_table table;
    const char *nothing;
    int (*show)(const struct ctl_settings *settings, const char *operand, struct record_list *rows);
    bool shows_json;
    /* Runs instead of one request and its output; returns an exit code. NULL for the default. */
    int (*run)(const struct ctl_verb *verb, const struct ctl_settings *settings,
               const char *operand);

    /* Order: text printed after "node NAME " once the server has accepted it; and a function that
     * then waits, or NULL, which returns as verb_run(). */
    const char *done;
    int (*after)(const struct ctl_settings *settings, const char *operand);
};

/* Sets the table of a verb: the schema of its records, and the headings of its columns. */
#define CTL_COLUMNS(schema_, ...)                                                                  \
    .table = {.schema = &(schema_),                                                                \
              .heads = (const char *const[]){__VA_ARGS__},                                         \
              .n_columns = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)}

extern const struct ctl_verb ctl_verb_submit, ctl_verb_jobs, ctl_verb_status, ctl_verb_describe,
    ctl_verb_watch, ctl_verb_wait, ctl_verb_logs, ctl_verb_events, ctl_verb_epochs, ctl_verb_nodes,
    ctl_verb_demand, ctl_verb_drain, ctl_verb_token_create, ctl_verb_token_rotate, ctl_verb_audit,
    ctl_verb_version;

/* All verbs, in the order and under the headings of "tfe-ctl -h". */
#define CTL_VERB_GROUPS 3
#define CTL_VERBS_MAX 20
struct ctl_verb_group {
    const char *heading;
    const struct ctl_verb *verbs[CTL_VERBS_MAX]; /* ends with NULL */
};
extern const struct ctl_verb_group ctl_verb_groups[CTL_VERB_GROUPS];

/* Sends the request and prints the response. Returns an exit code: results are on stdout, an error
 * is one sentence on stderr. */
int verb_run(const struct ctl_verb *verb, struct ctl_settings *settings, const char *operand);

/* Sends a request without options and collects the records. Returns as verb_run(); the caller ends
 * *rows. */
int verb_request(const struct ctl_settings *settings, enum operation_id id, const char *operand,
                 struct record_list *rows);

/* Asks every 500 ms until should_continue, which gets the records of each response, returns false.
 * Returns as verb_run(). */
int verb_poll(const struct ctl_settings *settings, enum operation_id id, const char *operand,
              bool (*should_continue)(void *ctx, const struct record_list *rows), void *ctx);

/* Waits until the job is over and prints how it ended. Returns the job's exit code. */
int verb_wait(const struct ctl_settings *settings, const char *job);

/* Prints one value as a line; takes ownership of the reference. Returns TFE_ENOMEM without
 * printing, also if value is NULL. */
int verb_print_json(json_t *value) TFE_MUST_CHECK;

/* Prints the records of the table's schema or, if there are none, the text `nothing` unless it is
 * NULL. */
void verb_print_table(const struct text_table *table, const struct record_list *rows,
                      const char *nothing);

#endif
