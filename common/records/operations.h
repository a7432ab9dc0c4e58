/* common/records/operations.h: the queries and orders of operators: the request, and the JSON
 * document of its response. The verbs of tfe-ctl, and the paths and event streams of tfe-web use
 * the rows of this table. */
#ifndef TFE_COMMON_RECORDS_OPERATIONS_H
#define TFE_COMMON_RECORDS_OPERATIONS_H

#include <jansson.h>

#include "common/message/msg.h"
#include "common/records/record.h"

enum operation_id {
    /* queries */
    OPERATION_STATUS, /* all jobs, or one, with their nodes */
    OPERATION_JOBS,   /* all jobs, without their nodes */
    OPERATION_JOB,    /* one job with all details */
    OPERATION_CONDITIONS,
    OPERATION_NODES,
    OPERATION_EPOCHS,
    OPERATION_EVENTS,
    OPERATION_SERIES,
    OPERATION_LOGS,
    OPERATION_POOL,
    OPERATION_DEMAND,
    OPERATION_GAUGES,
    OPERATION_AGENTS,
    OPERATION_BANS,
    OPERATION_AUDIT,
    OPERATION_TOKENS,
    OPERATION_TOKEN_CREATE,
    /* orders */
    OPERATION_SUBMIT,
    OPERATION_SCALE,
    OPERATION_GROW,
    OPERATION_SUSPEND,
    OPERATION_RESUME,
    OPERATION_CANCEL,
    OPERATION_RESTART,
    OPERATION_FORGET,
    OPERATION_DRAIN,
    OPERATION_EVICT,
    OPERATION_UNBAN,
    OPERATION_REVOKE_AGENT,
    OPERATION_TOKEN_REVOKE,
    OPERATION_TOKEN_ROTATE,
    OPERATION_BACKUP,
    OPERATION__COUNT
};

struct operation {
    const char *name;       /* order: its name in the response of the API */
    struct tfe_msg request; /* the request without its operand, with the default of each number */
    size_t operand_at; /* offset in struct tfe_msg of the operand: the name of a job, node, key or
                          file; 0 if there is none */
    /* Puts the records into the order in which they are shown, and computes what messages do not
     * provide. Returns TFE_ENOMEM, or TFE_ESTATE if the records do not form a response. NULL if
     * the server's order is shown. */
    int (*arrange)(struct record_list *rows);
    /* Returns the document, or NULL if out of memory. */
    json_t *(*json)(const struct record_list *rows, const struct tfe_msg *request);
    /* Without json: the document is {list: [all records of the schema]}. */
    const char *list;
    const struct record_schema *schema;
};

extern const struct operation operations[OPERATION__COUNT];

/* Returns the request. operand is borrowed; NULL if the operation has none, or concerns all. */
struct tfe_msg operation_request(enum operation_id id, const char *operand);

/* Sets the operand of a request; borrows it. Precondition: the operation has one. */
void operation_set_operand(enum operation_id id, const char *operand, struct tfe_msg *request);

/* Returns true if only an admin's token permits the operation. */
bool operation_needs_admin(enum operation_id id);

/* Arranges the records of a response; see arrange above. */
int operation_arrange(enum operation_id id, struct record_list *rows) TFE_MUST_CHECK;

/* Returns the document of a response whose records were arranged, or NULL if out of memory.
 * Precondition: the operation is a query. */
json_t *operation_json(enum operation_id id, const struct record_list *rows,
                       const struct tfe_msg *request) TFE_MUST_CHECK;

#endif
