/* common/records/schemas.h: the schemas of all records. The JSON keys are a contract: keys may be
 * added, but are never renamed or removed. */
#ifndef TFE_COMMON_RECORDS_SCHEMAS_H
#define TFE_COMMON_RECORDS_SCHEMAS_H

#include "common/message/msg.h"
#include "common/records/record.h"

/* A node, with the job of the preceding record. */
struct node_record {
    struct msg_status_node node;
    const char *job;
};

/* An epoch, with values computed from the whole ledger (epoch_summary.h). Times in ms, below 0 if
 * unknown. */
struct epoch_record {
    struct msg_epoch_row row;
    int64_t began;      /* wall-clock time of the first step or, if unknown, of LISTENING */
    int64_t ended;      /* wall-clock time of the end; if nobody observed it, the time when the next
                           epoch was due */
    int64_t standstill; /* time from the end of the previous epoch to the first step or, without a
                           step, to this epoch's end; 0 for the first epoch of a run that trained */
    bool is_lower_bound; /* standstill is a lower bound: the first step is not yet received, or
                      steps are not reported */
    int64_t running;     /* duration of training; up to now for the running epoch */
    int64_t saved; /* wall-clock time of the job's newest checkpoint, if it is of this epoch; 0
                      for earlier epochs, of which the server keeps only the step */
};

extern const struct record_schema schema_health; /* struct msg_health */
extern const struct record_schema schema_job;    /* struct msg_status_job */
extern const struct record_schema schema_node;   /* struct node_record */
extern const struct record_schema
    schema_node_of_job;                         /* struct node_record, including the job's name */
extern const struct record_schema schema_epoch; /* struct epoch_record */
extern const struct record_schema schema_event; /* struct msg_event_row */
extern const struct record_schema schema_point; /* struct msg_series_row */
extern const struct record_schema schema_audit_row; /* struct msg_audit_row */
extern const struct record_schema schema_ban_row;   /* struct msg_ban_row */
extern const struct record_schema schema_agent_row; /* struct msg_agent_row */
extern const struct record_schema schema_token_row; /* struct msg_token_row */
extern const struct record_schema schema_log_lines; /* struct msg_log_lines */
extern const struct record_schema schema_token;     /* struct msg_token */
extern const struct record_schema schema_condition; /* struct msg_condition_row */
extern const struct record_schema schema_pool_node; /* struct msg_pool_row */
extern const struct record_schema schema_demand;    /* struct msg_demand_row */
extern const struct record_schema schema_gauge;     /* struct msg_gauge */

/* Returns the schema of the record that a message of this type carries, or NULL if it carries
 * none. */
const struct record_schema *schema_of(enum tfe_msg_type type);

#endif
