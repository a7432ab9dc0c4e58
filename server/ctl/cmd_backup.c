/* server/ctl/cmd_backup.c: tfe-ctl backup: copies the server's database while it runs. */
#include "server/ctl/verb.h"

const struct ctl_verb ctl_verb_backup = {
    .name = "backup",
    .usage = "tfe-ctl backup [OPTIONS] NAME",
    .about = "copy what the server keeps of its jobs into a new file in its --backup-dir",
    .needs_operand = true,
    .operand = CTL_FILE,
    CTL_SAYS(MSG_BACKUP, backup.name),
    .done = "holds a complete copy, in the server's --backup-dir",
};
