/* server/ctl/cmd_demand.c: tfe-ctl demand: shows how many nodes the jobs want and the pool has. */
#include <jansson.h>
#include <stdlib.h>
#include <time.h>

#include "common/cli/option_table.h"
#include "common/records/json_text.h"
#include "common/records/schemas.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

#define POLL_NS 500000000L

static const char *const heads[] = {"LABELS",  "ROLE",     "MIN",   "WANTED", "ASSIGNED",
                                    "PENDING", "DEADLINE", "NODES", "IDLE"};
static const struct text_table table = {&schema_demand, heads, sizeof(heads) / sizeof(heads[0])};

static int show(const struct ctl_settings *settings, const char *operand, struct record_list *rows)
{
    (void)operand;
    return verb_show_table(settings, "demand", &table, rows, "no job wants nodes of the pool");
}

/* Queries once, or with --wait until the response differs from the first one. */
static int run(const struct ctl_verb *verb, const struct ctl_settings *settings,
               const char *operand)
{
    json_t *first = NULL;
    int status = EXIT_SUCCESS;
    bool goes_on = true;
    while (goes_on) {
        struct record_list rows = {.v = NULL};
        status = verb_ask(verb, settings, operand, &rows);
        json_t *now = record_list_json(&rows, &schema_demand);
        goes_on =
            settings->wait && status == EXIT_SUCCESS && now && (!first || json_equal(first, now));
        if (!goes_on && status == EXIT_SUCCESS && show(settings, operand, &rows) != 0) {
            status = CTL_FAILED;
        }
        record_list_done(&rows);
        if (first) {
            json_decref(now);
        } else {
            first = now;
        }
        if (goes_on) {
            (void)nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        }
    }
    json_decref(first);
    return status;
}

static const struct option_spec options[] = {
    FLAG("wait", wait, "return once it has changed"),
};

const struct ctl_verb ctl_verb_demand = {
    .name = "demand",
    .usage = "tfe-ctl demand [OPTIONS]",
    .about = "show the nodes that jobs want of the pool, and those that it has",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .says = MSG_DEMAND,
    .rows = {MSG_DEMAND_ROW},
    .show = show,
    .run = run,
};
