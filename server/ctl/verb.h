/* server/ctl/verb.h: a subcommand (verb) of tfe-ctl; main.c has their table. */
#ifndef TFE_SERVER_CTL_VERB_H
#define TFE_SERVER_CTL_VERB_H

#include <jansson.h>

#include "common/cli/options.h"
#include "common/credentials/join.h"
#include "common/message/msg.h"
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
    bool progress;        /* verb wait */
    struct submit_wish {  /* options of submit */
        const char *file; /* NULL if not given */
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
    const char *name;  /* one word or two, as "token list" */
    const char *usage; /* "tfe-ctl status [OPTIONS] [JOB]" */
    const char *about; /* one line for both help texts */
    /* Options of this verb alone; their fields are in struct ctl_settings. */
    const struct option_spec *options;
    size_t n_options;
    bool needs_operand; /* false if the operand may be left out */
    bool takes_sizes;   /* MIN:MAX follow the operand */
    bool takes_command; /* a command follows "--", and there are no other operands */
    bool finds_job; /* without an operand, the only job or the only one that is not over is used */
    enum ctl_operand operand;

    bool asks_nobody; /* the verb needs no server and no token */
    bool is_order;    /* a query that needs an admin's token (verbs without show always do) */

    /* Type of the request, the position of the operand in it (CTL_SAYS; 0 for none), and a
     * function that fills in the rest, or NULL. */
    enum tfe_msg_type says;
    size_t operand_at;
    void (*say_more)(const struct ctl_settings *settings, struct tfe_msg *message);

    /* Query: the records of the response, and the function that prints them when all have arrived.
     * It returns 0, TFE_ENOMEM, TFE_ESTATE if the records are inconsistent, or TFE_EAUTH if they
     * must not be trusted, after printing why. */
    enum tfe_msg_type rows[6];
    int (*show)(const struct ctl_settings *settings, const char *operand, struct record_list *rows);
    /* Runs instead of one request and its output; returns an exit code. NULL for the default. */
    int (*run)(const struct ctl_verb *verb, const struct ctl_settings *settings,
               const char *operand);

    /* Order: text printed after "node NAME " once the server has accepted it; and a function that
     * then waits, or NULL, which returns as verb_run(). */
    const char *done;
    int (*after)(const struct ctl_settings *settings, const char *operand);
};

/* Returns true if the verb needs an admin's token. */
static inline bool verb_is_order(const struct ctl_verb *verb)
{
    return verb->is_order || !(verb->show || verb->run);
}

#define CTL_SAYS(type, member) .says = (type), .operand_at = offsetof(struct tfe_msg, u.member)

/* In the order and under the headings of "tfe-ctl -h". */
#define CTL_JOB_VERBS(X)                                                                           \
    X(submit)                                                                                      \
    X(jobs)                                                                                        \
    X(status)                                                                                      \
    X(describe)                                                                                    \
    X(watch)                                                                                       \
    X(wait)                                                                                        \
    X(logs)                                                                                        \
    X(events)                                                                                      \
    X(epochs)                                                                                      \
    X(scale)                                                                                       \
    X(grow)                                                                                        \
    X(suspend)                                                                                     \
    X(resume)                                                                                      \
    X(cancel)                                                                                      \
    X(restart)                                                                                     \
    X(forget)
#define CTL_NODE_VERBS(X)                                                                          \
    X(nodes)                                                                                       \
    X(pool)                                                                                        \
    X(demand)                                                                                      \
    X(drain)                                                                                       \
    X(evict)                                                                                       \
    X(unban)                                                                                       \
    X(bans)
#define CTL_SERVER_VERBS(X)                                                                        \
    X(agents)                                                                                      \
    X(revoke_agent)                                                                                \
    X(token_create)                                                                                \
    X(token_list)                                                                                  \
    X(token_revoke)                                                                                \
    X(token_rotate)                                                                                \
    X(audit)                                                                                       \
    X(backup)                                                                                      \
    X(version)
#define CTL_VERBS(X)                                                                               \
    CTL_JOB_VERBS(X)                                                                               \
    CTL_NODE_VERBS(X)                                                                              \
    CTL_SERVER_VERBS(X)

#define CTL_VERB_DECLARE(name) extern const struct ctl_verb ctl_verb_##name;
CTL_VERBS(CTL_VERB_DECLARE)
#undef CTL_VERB_DECLARE

/* Sends the request and prints the response. Returns an exit code: results are on stdout, an error
 * is one sentence on stderr. */
int verb_run(const struct ctl_verb *verb, struct ctl_settings *settings, const char *operand);

/* Sends the verb's request and collects the records without printing them. Returns as verb_run();
 * the caller ends *rows. */
int verb_ask(const struct ctl_verb *verb, const struct ctl_settings *settings, const char *operand,
             struct record_list *rows);

/* Waits until the job is over and prints how it ended. Returns the job's exit code. */
int verb_wait(const struct ctl_settings *settings, const char *job);

/* Prints one value as a line; takes ownership of the reference. Returns TFE_ENOMEM without
 * printing, also if value is NULL. */
int verb_print_json(json_t *value) TFE_MUST_CHECK;

/* Prints the records of the table's schema: as {name: [...]}, or as the table; if there are none,
 * prints the text `nothing`, or nothing if it is NULL. Returns 0 or TFE_ENOMEM. */
int verb_show_table(const struct ctl_settings *settings, const char *name,
                    const struct text_table *table, const struct record_list *rows,
                    const char *nothing) TFE_MUST_CHECK;

#endif
