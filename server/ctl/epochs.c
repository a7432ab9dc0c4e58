/* server/ctl/epochs.c: tfe-ctl epochs: a job's ledger: why each epoch began, and what it cost. */
#include "server/ctl/epochs.h"

#include <stdlib.h>

#include "common/net/clock.h"
#include "server/ctl/request.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

static void on_begin(void *ctx)
{
    epochs_done(ctx);
}

static enum request_progress on_reply(void *ctx, const struct tfe_msg *msg)
{
    if (msg->type == MSG_EPOCH_ROW) {
        return epochs_add(ctx, &msg->u.epoch_row) == 0 ? REQUEST_MORE : REQUEST_FAILED;
    }
    return msg->type == MSG_STATUS_END ? REQUEST_DONE : REQUEST_STRANGE;
}

static int print(const struct ctl_settings *settings, const struct epochs *e, const char *job)
{
    if (settings->csv) {
        epochs_print_csv(e);
        return 0;
    }
    return settings->json ? epochs_print_json(e, job) : epochs_print_table(e, job);
}

static int run(const struct ctl_settings *settings, char **operands, int n_operands)
{
    (void)n_operands; /* one, by the table below */
    if (!request_job_is_sound(operands[0])) {
        return CTL_USAGE;
    }
    if (settings->csv && settings->json) {
        (void)fprintf(stderr, "tfe-ctl: --json and --csv are two forms, choose one\n");
        return CTL_USAGE;
    }
    struct epochs e = {.rows = NULL};
    struct tfe_msg question = {.type = MSG_EPOCHS, .u.epochs = {.job = operands[0]}};
    struct request request = {.question = &question,
                              .roles = {TOKEN_OBSERVER, TOKEN_ADMIN},
                              .n_roles = 2,
                              .begin = on_begin,
                              .reply = on_reply,
                              .ctx = &e};
    int status = request_run(settings, &request);
    if (status == EXIT_SUCCESS) {
        epochs_work_out(&e, clock_wall());
        if (print(settings, &e, operands[0]) != 0) {
            (void)fprintf(stderr, "tfe-ctl: out of memory\n");
            status = CTL_FAILED;
        }
    }
    epochs_done(&e);
    return status;
}

static const struct option_spec options[] = {
    {.name = "csv",
     .kind = OPTION_FLAG,
     .help = "print one line of comma-separated values for each epoch, for spreadsheets",
     .offset = FIELD(csv)},
};

const struct ctl_verb ctl_verb_epochs = {
    .name = "epochs",
    .usage = "tfe-ctl epochs [OPTIONS] JOB",
    .about = "show why each epoch of a job began, and what it cost",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
