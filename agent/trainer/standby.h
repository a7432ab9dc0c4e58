/* agent/trainer/standby.h: manages one standby per trainer: an interpreter with imported
 * modules, started when it does not disturb training. */
#ifndef TFE_AGENT_TRAINER_STANDBY_H
#define TFE_AGENT_TRAINER_STANDBY_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/guard_link.h"
#include "agent/trainer/command.h"
#include "common/base/error.h"
#include "common/message/msg.h"

struct event_base;
struct standbys;

/* Framework that the trainers use. AUTO selects the modules that the script has imported. */
enum framework {
    FRAMEWORK_AUTO,
    FRAMEWORK_TENSORFLOW,
    FRAMEWORK_JAX,
    FRAMEWORK_TORCH,
    FRAMEWORK_NONE
};
/* names for --framework by enum framework, NULL-terminated */
extern const char *const framework_names[];

struct standby_settings {
    bool is_off;              /* --no-standby */
    bool no_hooks;            /* --no-hooks */
    enum framework framework; /* --framework */
    const char *preload; /* comma-separated modules to import; NULL for those of the framework */
    uint32_t min_free_percent; /* free memory in percent below which there is no standby */
};

/* Options. Callbacks are called from the event loop or from inside a standbys_* function. */
struct standbys_options {
    struct event_base *base;
    const struct command *command;
    const struct standby_settings *settings;
    uint32_t nproc;
    bool has_end; /* start each trainer through the bootstrap, which copies artifacts at the end */
    /* Reports that the warm standby of a trainer is pid and has imported this version of
     * TensorFlow (NULL if unknown); pid 0 means that it is gone. */
    void (*changed)(void *ctx, uint32_t local, uint32_t pid, const char *tensorflow);
    /* Called when standbys_are_settled becomes true. */
    void (*settled)(void *ctx);
    void *ctx;
};

/* Finds tfe_bootstrap.py beside the program or at its installed location. Returns
 * false if it is missing. */
bool standby_bootstrap(char ret[PATH_MAX]);

/* Copies the options and borrows what they point to. Finds the bootstrap. Standbys are never
 * started if it is missing (logged once) or if the command is not Python. */
struct standbys *standbys_new(const struct standbys_options *options);
void standbys_free(struct standbys *s);

/* Sets the guard that starts standbys; NULL if it has died together with its standbys. */
void standbys_guard(struct standbys *s, struct guard_link *link);

/* Starts standbys at once, on a node that has run no trainer yet. */
void standbys_begin(struct standbys *s);

/* Postpones new standbys until the first step of the trainers that have just
 * started, or for 5 s. */
void standbys_trainers_began(struct standbys *s);
void standbys_trainers_stepped(struct standbys *s);
/* Starts missing standbys after the trainers' end, unless the next start follows at once. */
void standbys_trainers_ended(struct standbys *s);

/* Records that a trainer's script has imported a module that no standby had imported before;
 * later standbys import it too. Ignores modules that are not part of a framework. */
void standbys_note_import(struct standbys *s, const char *module);

/* Returns true if trainers can listen on a port that the agent holds. PyTorch's store can only
 * do so with a hook that the bootstrap installs. */
bool standbys_can_share_ports(const struct standbys *s);

/* Returns the combined state of all standbys. */
enum tfe_standby standbys_state(const struct standbys *s);

/* Returns true if waiting would not make a start faster: every standby is warm or
 * will not become warm. */
bool standbys_are_settled(const struct standbys *s);

/* Starts a trainer in slot `local`: in its standby if there is one; through a new bootstrap if
 * hooks or artifacts are enabled or an environment string is too long for execve(2); otherwise
 * directly.
 * *ret_how is "standby", "bootstrap" or "exec". Errors as for guard_link_spawn. */
int standbys_spawn(struct standbys *s, uint32_t local, const struct spawn_spec *spec, int stdout_fd,
                   int stderr_fd, const char **ret_how) TFE_MUST_CHECK;

/* Handles guard events of slots from GUARD_STANDBY_SLOT on, and COLD of any slot. */
void standbys_event(struct standbys *s, const struct guard_event *event);

#endif
