/* server/ctl/cmd_logs.h: shows the output of trainers, for other verbs. */
#ifndef TFE_SERVER_CTL_CMD_LOGS_H
#define TFE_SERVER_CTL_CMD_LOGS_H

#include "server/ctl/verb.h"

/* Shows the output since settings->since, and new output until is_over() returns true and no more
 * lines arrive. Returns an exit code. */
int logs_follow(const struct ctl_settings *settings, const char *job, bool (*is_over)(void *ctx),
                void *ctx);

#endif
