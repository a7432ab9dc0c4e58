/* server/ctl/cmd_logs.h: what the trainers of a job print, for other verbs. */
#ifndef TFE_SERVER_CTL_CMD_LOGS_H
#define TFE_SERVER_CTL_CMD_LOGS_H

#include "server/ctl/verb.h"

/* Shows what they have printed since settings->since, and what they print until is_over says so and
 * nothing came since it was asked before. Exit code of the program. */
int logs_follow(const struct ctl_settings *settings, const char *job, bool (*is_over)(void *ctx),
                void *ctx);

#endif
