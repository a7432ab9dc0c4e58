/* server/ctl/backup.c: tfe-ctl backup: copies the server's database while it runs. */
#include <stdio.h>
#include <string.h>

#include "server/ctl/order.h"
#include "server/ctl/verb.h"

static int run(const struct ctl_settings *settings, char **operands, int n_operands)
{
    (void)n_operands; /* one, by the table below */
    const char *path = operands[0];
    if (path[0] != '/' || strlen(path) > MSG_PATH_MAX) {
        (void)fprintf(stderr,
                      "tfe-ctl: FILE is written by the server, on its machine: give its absolute "
                      "path, of at most %u bytes\n",
                      (unsigned)MSG_PATH_MAX);
        return CTL_USAGE;
    }
    struct order order = {.msg = {.type = MSG_BACKUP, .u.backup = {.path = path}},
                          .verb = "backup",
                          .key = "file",
                          .operand = path,
                          .sentence = "holds a complete copy, on the server's machine"};
    return order_run(settings, &order);
}

const struct ctl_verb ctl_verb_backup = {
    .name = "backup",
    .usage = "tfe-ctl backup [OPTIONS] FILE",
    .about = "copy what the server keeps of its jobs into a new file on its machine",
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
