/* agent/settings.h: the options of tfe-agent, as one struct filled by one table. */
#ifndef TFE_AGENT_SETTINGS_H
#define TFE_AGENT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/notice/choice.h"
#include "agent/output/output_show.h"
#include "common/base/id.h"
#include "common/net/log.h"
#include "common/net/options.h"

/* Texts are borrowed from argv and the environment. Durations in ms; MSG_UNSET: the server decides.
 */
struct agent_settings {
    uint32_t min_nodes;
    uint32_t max_nodes;
    uint32_t nproc;
    bool standalone;
    const char *endpoint;
    struct tfe_id job;
    const char *token;
    const char *token_file;
    const char *state_dir;
    const char *address;
    char address_host[TFE_HOST_MAX + 1]; /* "": as the connection says */
    uint16_t address_port;               /* 0: any */
    uint32_t monitor_interval_ms;        /* 0: as the server says */
    uint32_t max_restarts;
    uint32_t gather_ms;
    uint32_t grow_wait_ms;
    uint32_t elastic_timeout_ms;
    bool new_run;
    const char *run_key; /* NULL: any run */
    bool durable;
    bool no_grow;
    uint32_t chief_grace_ms;
    uint32_t stop_grace_ms;
    uint32_t exit_grace_ms;
    uint32_t join_timeout_ms;
    struct notice_choice notice;
    uint32_t preempt_grace_ms;
    const char *node_name; /* NULL: the host name */
    const char *python;
    bool module;
    bool no_python;
    const char *checkpoint_dir;   /* NULL: none is watched */
    uint32_t start_timeout_ms;    /* 0: none */
    uint32_t progress_timeout_ms; /* 0: none */
    bool no_standby;
    const char *preload; /* NULL: what the script imports */
    uint32_t standby_min_free;
    const char *log_dir;     /* NULL: there are no log files */
    uint32_t log_keep_ms;    /* 0: for ever */
    uint64_t log_max_bytes;  /* 0: any number */
    struct output_show show; /* without log files only its ranks count */
    enum log_level log_level;
    enum log_format log_format;
};

/* Before options_parse. */
void agent_settings_init(struct agent_settings *settings);

extern const struct option_table agent_options;

#endif
