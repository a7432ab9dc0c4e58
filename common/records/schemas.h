/* common/records/schemas.h: the kinds of rows that there are, and what they are called. The keys
 * are a contract with whoever reads our JSON: more may come, none is renamed or removed. */
#ifndef TFE_COMMON_RECORDS_SCHEMAS_H
#define TFE_COMMON_RECORDS_SCHEMAS_H

#include "common/message/msg.h"
#include "common/records/record.h"

/* A node, in the job that its row came behind. */
struct node_row {
    struct msg_status_node node;
    const char *job;
};

/* An epoch, and what follows from the rows of a whole ledger (epoch_summary.h). Times in ms, below
 * 0: not known. */
struct epoch_row {
    struct msg_epoch_row row;
    int64_t began;      /* since 1970: its first step, or what is known: it listened */
    int64_t ended;      /* since 1970; of one that nobody saw end, when the next one was due */
    int64_t standstill; /* from the last epoch's end to the first step, or to this one's end where
                           it came to none; 0 for a run's first that trained */
    bool is_least;      /* … or longer: that step is still to come, or steps are not seen */
    int64_t running;    /* it trained; of the running one, until now */
};

extern const struct row_kind kind_health;      /* struct msg_health */
extern const struct row_kind kind_job;         /* struct msg_status_job */
extern const struct row_kind kind_node;        /* struct node_row */
extern const struct row_kind kind_node_of_job; /* the same, with the job's name in it */
extern const struct row_kind kind_epoch;       /* struct epoch_row */
extern const struct row_kind kind_event;       /* struct msg_event_row */
extern const struct row_kind kind_point;       /* struct msg_series_row */
extern const struct row_kind kind_audit_row;   /* struct msg_audit_row */
extern const struct row_kind kind_ban_row;     /* struct msg_ban_row */
extern const struct row_kind kind_agent_row;   /* struct msg_agent_row */
extern const struct row_kind kind_token_row;   /* struct msg_token_row */
extern const struct row_kind kind_log_lines;   /* struct msg_log_lines */
extern const struct row_kind kind_token;       /* struct msg_token */
extern const struct row_kind kind_condition;   /* struct msg_condition_row */
extern const struct row_kind kind_pool_node;   /* struct msg_pool_row */
extern const struct row_kind kind_demand;      /* struct msg_demand_row */
extern const struct row_kind kind_gauge;       /* struct msg_gauge */

/* The kind of row that a message of this type is; NULL: it is none. */
const struct row_kind *kind_of(enum tfe_msg_type type);

#endif
