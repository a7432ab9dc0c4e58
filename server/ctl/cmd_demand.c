/* server/ctl/cmd_demand.c: tfe-ctl demand: shows how many nodes the jobs want and the pool has. */
#include <jansson.h>
#include <stdlib.h>

#include "common/cli/option_table.h"
#include "common/records/json_text.h"
#include "common/records/schemas.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

struct waiting {
    const struct ctl_settings *settings;
    json_t *first; /* the first response */
    int rc;
};

/* Prints the response if it is the last one: without --wait the first, otherwise the first that
 * differs from it. */
static bool should_continue(void *ctx, const struct record_list *rows)
{
    struct waiting *w = ctx;
    json_t *now = record_list_json(rows, &schema_demand);
    const bool is_last = !w->settings->wait || !now || (w->first && !json_equal(w->first, now));
    if (!w->first) {
        w->first = json_incref(now);
    }
    if (is_last && w->settings->json) {
        w->rc = verb_print_json(operation_json(OPERATION_DEMAND, rows, NULL));
    } else if (is_last) {
        verb_print_table(&ctl_verb_demand.table, rows, ctl_verb_demand.nothing);
    }
    json_decref(now);
    return !is_last;
}

static int run(const struct ctl_verb *verb, const struct ctl_settings *settings,
               const char *operand)
{
    struct waiting w = {.settings = settings};
    const int status = verb_poll(settings, verb->operation, operand, should_continue, &w);
    json_decref(w.first);
    return status == EXIT_SUCCESS && w.rc != 0 ? CTL_FAILED : status;
}

static const struct option_spec options[] = {
    FLAG("wait", wait, "wait until the demand changes, print it, and exit"),
};

const struct ctl_verb ctl_verb_demand = {
    .name = "demand",
    .about = "show how many pool nodes jobs request and how many exist",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .operation = OPERATION_DEMAND,
    CTL_COLUMNS(schema_demand, "LABELS", "ROLE", "MIN", "WANTED", "ASSIGNED", "PENDING", "DEADLINE",
                "NODES", "IDLE"),
    .nothing = "no job requests pool nodes",
    .run = run,
};
