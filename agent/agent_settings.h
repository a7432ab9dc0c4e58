/* agent/agent_settings.h: the options of tfe-agent, as one struct filled by one table. */
#ifndef TFE_AGENT_AGENT_SETTINGS_H
#define TFE_AGENT_AGENT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/agent.h"
#include "agent/os/private_dir.h"
#include "agent/output/log_writer.h"
#include "agent/output/output_show.h"
#include "agent/preemption/notice_selection.h"
#include "agent/trainer/standby.h"
#include "agent/trainer/watchdog.h"
#include "common/cli/log.h"
#include "common/cli/options.h"

struct handover;

/* Labels of a node of the pool, each K=V. */
struct pool_labels {
    const char *v[MSG_POOL_LABELS_MAX];
    size_t n;
    char text[MSG_POOL_LABELS_MAX][MSG_POOL_LABEL_MAX + 1];
};

enum runtime { RUNTIME_NONE, RUNTIME_PODMAN, RUNTIME_DOCKER };
extern const char *const runtimes[]; /* their words; NULL ends them */

/* Texts are borrowed from argv and the environment. Durations in ms; MSG_UNSET: the server decides.
 */
struct agent_settings {
    struct agent_config agent; /* what the core has to know, as far as options say it */
    bool standalone;
    bool pool; /* wait for jobs that are handed in … */
    struct pool_labels labels;
    uint32_t slots;
    uint32_t idle_exit_ms;           /* 0: an idle node stays */
    uint32_t floor;                  /* an idle node also stays if no more nodes are left */
    const char *on_finish;           /* what is run then; NULL: nothing */
    uint32_t runtime;                /* enum runtime: what runs images */
    const char *runtime_options;     /* options for the container engine; NULL: none */
    const struct handover *handover; /* of the pool that started this agent; NULL: none did */
    int pool_fd;                     /* ends with that pool; -1 */
    const char *endpoint;
    char *token;
    const char *token_file;
    bool no_persist; /* the agent's own key */
    const char *state_dir;
    char address_host[TFE_HOST_MAX + 1]; /* "": as the connection says */
    uint16_t address_port;               /* 0: any */
    struct notice_selection notice;
    const char *python;
    bool module;
    bool no_python;
    bool default_ps;
    const char *trainer_user;   /* NULL: the agent's */
    const char *progress_regex; /* NULL: only lines that begin with "tfe: " tell something */
    const char *checkpoint_dir; /* NULL: none is watched */
    uint64_t state_memory;      /* see script_channel/state_memory.h */
    struct watch_settings watch;
    struct standby_settings standby;
    struct log_writer_options logs; /* root NULL: there are no log files */
    struct output_show show;        /* without log files only its ranks count */
    enum log_level log_level;
    enum log_format log_format;
};

/* Before options_parse. */
void agent_settings_init(struct agent_settings *settings);

/* Where the agent's own key and bundles are kept; "": the usual directory; NULL: in memory. */
const char *agent_settings_state_dir(const struct agent_settings *settings);

extern const struct option_table agent_options;

#endif
