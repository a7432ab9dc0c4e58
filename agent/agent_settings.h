/* agent/agent_settings.h: the options of tfe-agent, filled from one table. */
#ifndef TFE_AGENT_AGENT_SETTINGS_H
#define TFE_AGENT_AGENT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/agent.h"
#include "agent/health.h"
#include "agent/os/private_dir.h"
#include "agent/output/log_writer.h"
#include "agent/output/output_show.h"
#include "agent/preemption/notice_selection.h"
#include "agent/trainer/environment.h"
#include "agent/trainer/standby.h"
#include "agent/trainer/watchdog.h"
#include "common/cli/log.h"
#include "common/cli/options.h"

struct handover;

/* Labels of a pool node, each "K=V". */
struct pool_labels {
    const char *v[MSG_POOL_LABELS_MAX];
    size_t n;
    char text[MSG_POOL_LABELS_MAX][MSG_POOL_LABEL_MAX + 1];
};

enum runtime { RUNTIME_NONE, RUNTIME_PODMAN, RUNTIME_DOCKER };
extern const char *const runtimes[]; /* names by enum runtime, NULL-terminated */

/* Values of all options. Texts are borrowed from argv and the environment. Durations are in ms;
 * MSG_UNSET leaves a value to the server. */
struct agent_settings {
    struct agent_config agent; /* configuration of the core, as far as options define it */
    bool standalone;
    bool pool; /* wait for submitted jobs instead of running a script */
    struct pool_labels labels;
    uint32_t slots;
    uint32_t idle_exit_ms; /* 0 to keep an idle node */
    uint32_t floor; /* minimum number of pool nodes; an idle node stays if fewer would remain */
    const char *on_finish;       /* command run when the node leaves the pool, or NULL */
    uint32_t runtime;            /* enum runtime: container engine for images */
    const char *runtime_options; /* options for the container engine, or NULL */
    /* settings from the pool node that started this agent, or NULL */
    const struct handover *handover;
    int pool_fd; /* reaches EOF when that pool node ends; -1 if there is none */
    const char *endpoint;
    char *token;
    const char *token_file;
    bool no_persist; /* keep the agent's own key in memory only */
    const char *state_dir;
    char address_host[TFE_HOST_MAX + 1]; /* "" to use the connection's local address */
    uint16_t address_port;               /* 0 for any port */
    struct health_checks checks;         /* --check */
    uint32_t gpu_memory_wait_ms;         /* longest wait for GPU memory before a start; 0: none */
    struct notice_selection notice;
    char *git;            /* URL@REF of the repository with the script, or NULL */
    const char *git_path; /* directory of that repository, or NULL for its root */
    const char *python;
    bool module;
    bool no_python;
    bool default_ps;
    const char *trainer_user;   /* NULL to run trainers as the agent's user */
    const char *progress_regex; /* NULL to parse only lines that begin with "tfe: " */
    const char *checkpoint_dir; /* NULL to watch none */
    uint64_t state_memory;      /* limit for snapshots, see script_channel/state_memory.h */
    struct artifacts_settings artifacts;
    struct watch_settings watch;
    struct standby_settings standby;
    struct log_writer_options logs; /* root is NULL if there are no log files */
    struct output_show
        show; /* --log-filter-ranks and --tee; --tee has no effect without log files */
    enum log_level log_level;
    enum log_format log_format;
};

/* Initialises settings before options_parse. */
void agent_settings_init(struct agent_settings *settings);

/* Returns the directory of the agent's own key and bundles: "" for the default, NULL to keep
 * the key in memory. */
const char *agent_settings_state_dir(const struct agent_settings *settings);

extern const struct option_table agent_options;

#endif
