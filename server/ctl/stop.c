/* server/ctl/stop.c: tfe-ctl stop: ends a job. */
#include "server/ctl/order.h"
#include "server/ctl/request.h"
#include "server/ctl/verb.h"

static int run(const struct ctl_settings *settings, char **operands, int n_operands)
{
    (void)n_operands; /* one, by the table below */
    if (!request_job_is_sound(operands[0])) {
        return CTL_USAGE;
    }
    struct order order = {.msg = {.type = MSG_STOP_JOB, .u.stop_job = {.job = operands[0]}},
                          .verb = "stop",
                          .key = "job",
                          .operand = operands[0],
                          .sentence = "ends now, unless it had ended already"};
    return order_run(settings, &order);
}

const struct ctl_verb ctl_verb_stop = {
    .name = "stop",
    .usage = "tfe-ctl stop [OPTIONS] JOB",
    .about = "end a job; its agents exit 1",
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
