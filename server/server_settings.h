/* server/server_settings.h: the options of tfe-rdzv as one struct, filled from one table. */
#ifndef TFE_SERVER_SERVER_SETTINGS_H
#define TFE_SERVER_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/cli/log.h"
#include "common/cli/options.h"
#include "common/message/job_spec.h"
#include "common/text/reason.h"
#include "server/node_address.h"

struct settings {
    const char *bind;
    const char *state_dir;  /* NULL: chosen by state_dir_find() */
    const char *backup_dir; /* NULL: `backups` in the state directory */
    const char *user;       /* NULL: chosen by privileges_find() */
    const char *advertise;  /* NULL: chosen by advertise_find() */
    uint32_t port;
    uint32_t ttl_ms;
    uint32_t fence_ms; /* 0: the rule in rdzv.h */
    uint32_t gather_max_ms;
    struct job_spec defaults; /* defaults of a job whose agents set no value */
    uint32_t renew_rate;
    uint32_t exit_grace_ms;
    uint32_t probe_ms;
    uint32_t half_open_per_address;
    bool no_sandbox;
    struct addresses allowed;
    uint32_t jobs_per_token, agents_per_token;
    int64_t keep_history_ms; /* 0: for ever */
    bool shows_arguments;    /* observers see the arguments of jobs' commands */
    bool ephemeral;          /* jobs are kept in memory only */
    enum log_level log_level;
    enum log_format log_format;
};

extern const struct option_table settings_table;

/* Parses argv and the environment. Strings are borrowed. Returns 0, or TFE_EINVAL with one
 * sentence in *reason. */
int settings_parse(int argc, char **argv, struct settings *ret, enum options_result *ret_result,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
