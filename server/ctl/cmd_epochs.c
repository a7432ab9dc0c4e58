/* server/ctl/cmd_epochs.c: tfe-ctl epochs: lists the ledger of a job: why each epoch began, and
 * its cost. */
#include <stdio.h>

#include "common/base/clock.h"
#include "common/cli/option_table.h"
#include "common/records/epoch_summary.h"
#include "common/records/json_text.h"
#include "common/records/text_table.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* --- output for people --- */

static void print_total(const struct record_list *ledger)
{
    char buf[RECORD_TEXT_MAX];
    const char *before = " (";
    struct epochs_total total;
    epochs_sum(ledger, clock_wall(), &total);
    if (total.now >= 0) {
        const char *waits = total.job->waits;
        (void)printf("now: no training for %s: %s\n", text_table_duration(total.now, buf),
                     waits ? waits : msg_job_state_name(total.job->state));
    }
    (void)printf("total: running %s", text_table_duration(total.running, buf));
    (void)printf(", standstill %s%s", total.is_lower_bound ? ">= " : "",
                 text_table_duration(total.standstill_all, buf));
    for (unsigned i = 0; i < EPOCHS_CAUSES; i++) {
        if (total.standstill[i] > 0) {
            (void)printf("%s%s %s", before, msg_cause_name((enum tfe_cause)i),
                         text_table_duration(total.standstill[i], buf));
            before = ", ";
        }
    }
    if (total.now > 0) {
        (void)printf("%snow %s", before, text_table_duration(total.now, buf));
        before = ", ";
    }
    (void)printf("%s", before[0] == ',' ? ")" : "");
    if (total.has_lost) {
        (void)printf(", lost steps %llu", (unsigned long long)total.lost_steps);
    }
    if (total.useful >= 0) {
        (void)printf(", useful %.1f %%", total.useful);
    }
    (void)putchar('\n');
}

static void print_table(const struct record_list *ledger, const char *job)
{
    static const char *const heads[] = {"RUN",        "EPOCH",   "BEGAN", "NODES", "CAUSE",
                                        "STANDSTILL", "RUNNING", "SAVED", "LOST",  "RESTARTS"};
    struct text_table epochs = {&schema_epoch, heads, COUNT(heads) - 1};
    for (size_t i = 0; i < ledger->n; i++) {
        const struct epoch_record *row = ledger->v[i].at;
        bool has = ledger->v[i].schema == &schema_epoch && row->row.restarts > 0;
        epochs.n_columns = has ? COUNT(heads) : epochs.n_columns;
    }
    if (text_table_print(&epochs, ledger->v, ledger->n, 0, stdout) == 0) {
        (void)printf("job %s has not had an epoch yet\n", job);
    } else {
        print_total(ledger);
    }
}

/* --- output for programs --- */

static void print_csv(const struct record_list *ledger)
{
    record_csv(&schema_epoch, NULL, stdout);
    for (size_t i = 0; i < ledger->n; i++) {
        if (ledger->v[i].schema == &schema_epoch) {
            record_csv(&schema_epoch, ledger->v[i].at, stdout);
        }
    }
}

static int show(const struct ctl_settings *settings, const char *job, struct record_list *ledger)
{
    if (settings->csv) {
        print_csv(ledger);
    } else {
        print_table(ledger, job);
    }
    return 0;
}

static const struct option_spec options[] = {
    FLAG("csv", csv, "print comma-separated values, one line per epoch"),
};

const struct ctl_verb ctl_verb_epochs = {
    .name = "epochs",
    .operands = "[JOB]",
    .about = "show the cause and the cost of each epoch of a job",
    .options = options,
    .n_options = COUNT(options),
    .finds_job = true,
    .operand = CTL_JOB,
    .operation = OPERATION_EPOCHS,
    .show = show,
};
