/* agent/trainer/standby.h: one warm interpreter per trainer: when to have one, and when not. */
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

/* What the trainers train with. AUTO: as the script's imports show. */
enum framework {
    FRAMEWORK_AUTO,
    FRAMEWORK_TENSORFLOW,
    FRAMEWORK_JAX,
    FRAMEWORK_TORCH,
    FRAMEWORK_NONE
};
extern const char *const framework_names[]; /* of --framework, by enum framework; NULL at the end */

struct standby_settings {
    bool is_off;               /* --no-standby */
    bool no_hooks;             /* --no-hooks */
    enum framework framework;  /* --framework */
    const char *preload;       /* modules, separated by commas; NULL: those of the framework */
    uint32_t min_free_percent; /* of memory; below that there is none */
};

/* Callbacks come from the loop or from inside a standbys_* call. */
struct standbys_options {
    struct event_base *base;
    const struct command *command;
    const struct standby_settings *settings;
    uint32_t nproc;
    /* The warm standby of a trainer is pid now, and has imported TensorFlow of this version (NULL:
     * not known); 0: there is none. */
    void (*changed)(void *ctx, uint32_t local, uint32_t pid, const char *tensorflow);
    /* standbys_are_settled became true. */
    void (*settled)(void *ctx);
    void *ctx;
};

/* The path of tfe_bootstrap.py, which is beside the program, or where it is installed. False: there
 * is none. */
bool standby_bootstrap(char ret[PATH_MAX]);

/* Copies the options, borrows what it points to. Finds the bootstrap; without it (said once), or for
 * what is no Python, there never is a standby. */
struct standbys *standbys_new(const struct standbys_options *options);
void standbys_free(struct standbys *s);

/* The guard to start them with; NULL: it is gone, and they with it. */
void standbys_guard(struct standbys *s, struct guard_link *link);

/* A node that has run no trainer yet: starts them now, nobody is disturbed. */
void standbys_begin(struct standbys *s);

/* Trainers were started: the next standbys come after their first step, or 5 s. */
void standbys_trainers_began(struct standbys *s);
void standbys_trainers_stepped(struct standbys *s);
/* … were ended: who has no standby gets one, unless the next start comes at once. */
void standbys_trainers_ended(struct standbys *s);

/* A trainer's script has imported this module, which no standby had imported for it: the next
 * standbys do. Ignores modules that are not part of a framework. */
void standbys_note_import(struct standbys *s, const char *module);

/* Whether trainers can listen on a port that the agent holds. PyTorch's store can only through a
 * hook, which the bootstrap installs. */
bool standbys_can_share_ports(const struct standbys *s);

/* What has become of them now, all together. */
enum tfe_standby standbys_state(const struct standbys *s);

/* Whether a start would find all that it can hope for: every standby is warm, or will not be. */
bool standbys_are_settled(const struct standbys *s);

/* Starts a trainer in slot local with spec: in its standby, if there is one; through a bootstrap of
 * its own for the sake of the hooks, or if an environment string is too long for execve(2); else
 * the plain way. *ret_how: "standby", "bootstrap" or "exec". Errors as guard_link_spawn. */
int standbys_spawn(struct standbys *s, uint32_t local, const struct spawn_spec *spec, int stdout_fd,
                   int stderr_fd, const char **ret_how) TFE_MUST_CHECK;

/* What the guard tells of slots from GUARD_STANDBY_SLOT on, and COLD of any slot. */
void standbys_event(struct standbys *s, const struct guard_event *event);

#endif
