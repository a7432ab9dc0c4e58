/* server/ctl/verb.h: what a subcommand of tfe-ctl is; main.c has the table of them. */
#ifndef TFE_SERVER_CTL_VERB_H
#define TFE_SERVER_CTL_VERB_H

#include <jansson.h>

#include "common/cli/options.h"
#include "common/credentials/join.h"
#include "common/message/msg.h"
#include "common/records/record.h"
#include "common/records/text_table.h"

/* Texts are borrowed from argv and the environment. */
struct ctl_settings {
    const char *endpoint;
    char *token;
    const char *token_file;
    const char *state_dir;
    uint32_t timeout_ms;
    bool json;
    bool csv;                      /* epochs */
    uint32_t in_ms;                /* drain; MSG_UNSET: no time was named */
    bool wait;                     /* drain, demand */
    bool all;                      /* status */
    bool verify;                   /* audit */
    uint32_t last;                 /* events */
    uint32_t sort;                 /* nodes: which of its words */
    uint32_t for_ms;               /* evict */
    uint32_t min_nodes, max_nodes; /* scale */
    uint32_t n_ps;                 /* scale; MSG_UNSET: as many as now */
    /* token create */
    uint32_t role; /* enum principal_role */
    const char *job;
    const char *label; /* NULL: none */
    uint32_t ttl_ms;
    uint32_t uses;
    uint32_t quota;
    bool install, use, remove; /* token rotate */
    /* logs */
    uint32_t rank; /* MSG_UNSET: all */
    const char *node;
    uint64_t of_epoch; /* 0: what is at hand */
    bool follow;
    uint32_t lines; /* MSG_UNSET: all */
    struct tfe_wall since;
    bool progress;        /* wait */
    struct submit_wish {  /* submit */
        const char *file; /* NULL: none */
        bool dry_run;
        const char *name, *path, *bundle, *git, *work_dir, *image; /* NULL: not said, as the next */
        const char *bundle_out;
        uint32_t min_nodes, max_nodes; /* 0: not said, as the next */
        uint32_t n_ps, nproc;
        uint32_t strategy; /* which of its words */
        uint32_t priority; /* MSG_UNSET: not said */
        bool chief, evaluator, preempt, suspend;
        bool logs;
        struct submit_pairs { /* K=V */
            const char *v[MSG_WORDS_MAX];
            size_t n;
        } env, labels, options;
        char *const *command; /* of what stands behind "--"; NULL: nothing does */
        size_t n_command;
    } submit;
    struct join_info server;
};

/* Exit codes of tfe-ctl, besides EXIT_SUCCESS. 69 and 77 are sysexits(3)'s. */
enum ctl_exit {
    CTL_FAILED = 1, /* no such job or node, and all that has no code of its own */
    CTL_USAGE = 2,
    CTL_UNREACHED = 69,
    CTL_UNAUTHORISED = 77
};

/* What the operand names, NONE where there is none: it is checked before anybody is asked. */
enum ctl_operand { CTL_NONE, CTL_JOB, CTL_NODE, CTL_FILE, CTL_KEY };

/* A verb asks to see rows, or gives an order. */
struct ctl_verb {
    const char *name;  /* one word, or two: "token list" */
    const char *usage; /* "tfe-ctl status [OPTIONS] [JOB]" */
    const char *about; /* one line, in both -h */
    /* Options of this verb alone; their fields are in struct ctl_settings. */
    const struct option_spec *options;
    size_t n_options;
    bool needs_operand; /* else it may be left out */
    bool takes_sizes;   /* MIN:MAX follow it */
    bool takes_command; /* … behind "--", and there is nothing else that is no option */
    bool finds_job;     /* … where the server has one job only, or one that is not over */
    enum ctl_operand operand;

    bool asks_nobody; /* it needs no server and no token; it has run */
    bool is_order;    /* a question that takes an admin's token, too; without show: always */

    /* What is said to the server, where the operand stands in it (CTL_SAYS; 0: nowhere), and what
     * else is said; NULL: nothing. */
    enum tfe_msg_type says;
    size_t operand_at;
    void (*say_more)(const struct ctl_settings *settings, struct tfe_msg *message);

    /* Of a question: the rows that answer it, and what prints them once all are there. TFE_ENOMEM;
     * TFE_ESTATE: they make no sense together; TFE_EAUTH: they are not to be believed, it said so.
     */
    enum tfe_msg_type rows[6];
    int (*show)(const struct ctl_settings *settings, const char *operand, struct record_list *rows);
    /* … or what is done in place of asking once and showing; exit code of the program. */
    int (*run)(const struct ctl_verb *verb, const struct ctl_settings *settings,
               const char *operand);

    /* Of an order: what is said, behind "node NAME ", once the server has taken it in; and what is
     * waited for then, or NULL: as verb_run. */
    const char *done;
    int (*after)(const struct ctl_settings *settings, const char *operand);
};

/* It takes an admin's token. */
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

/* Asks and prints. Exit code of the program: results are on stdout, one sentence on stderr if it
 * fails. */
int verb_run(const struct ctl_verb *verb, struct ctl_settings *settings, const char *operand);

/* Asks for rows of the verb without printing them. As verb_run; rows are the caller's to end. */
int verb_ask(const struct ctl_verb *verb, const struct ctl_settings *settings, const char *operand,
             struct record_list *rows);

/* Waits until the job is over, and prints how it ended. Exit code of the program: the job's. */
int verb_wait(const struct ctl_settings *settings, const char *job);

/* Prints one value, whose reference it takes, as a line. TFE_ENOMEM, also where value is NULL:
 * nothing was printed. */
int verb_print_json(json_t *value) TFE_MUST_CHECK;

/* Shows the rows of the table's kind: as {name: [...]}, or as the table; nothing is said where
 * there are none, NULL: no word. TFE_ENOMEM. */
int verb_show_table(const struct ctl_settings *settings, const char *name,
                    const struct text_table *table, const struct record_list *rows,
                    const char *nothing) TFE_MUST_CHECK;

#endif
