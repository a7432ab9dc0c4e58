/* agent/trainers/standby.h: one warm interpreter per trainer: when to have one, and when not. */
#ifndef TFE_AGENT_TRAINERS_STANDBY_H
#define TFE_AGENT_TRAINERS_STANDBY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/guard_link.h"
#include "agent/trainers/command.h"
#include "common/base/error.h"

struct event_base;
struct standbys;

struct standby_settings {
    bool is_off;               /* --no-standby */
    const char *preload;       /* modules, separated by commas; NULL: as the script imports */
    uint32_t min_free_percent; /* of memory; below that there is none */
};

/* Callbacks come from the loop or from inside a standbys_* call. */
struct standbys_wish {
    struct event_base *base;
    const struct command *command;
    const struct standby_settings *settings;
    uint32_t nproc;
    /* The warm standby of a trainer is pid now; 0: there is none. */
    void (*told)(void *ctx, uint32_t local, uint32_t pid);
    /* standbys_are_settled became true. */
    void (*settled)(void *ctx);
    void *ctx;
};

/* Copies the wish, borrows what it points to. Finds the bootstrap; without it (said once), or for
 * what is no Python, there never is a standby. TFE_ENOMEM. */
int standbys_new(const struct standbys_wish *wish, struct standbys **ret) TFE_MUST_CHECK;
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

/* Whether a start would find all that it can hope for: every standby is warm, or will not be. */
bool standbys_are_settled(const struct standbys *s);

/* Starts a trainer in slot local with spec: in its standby, if there is one; through a bootstrap of
 * its own if an environment string is too long for execve(2); else the plain way. *ret_handed: not
 * the plain way. Errors as guard_link_spawn. */
int standbys_spawn(struct standbys *s, uint32_t local, const struct spawn_spec *spec, int stdout_fd,
                   int stderr_fd, bool *ret_handed) TFE_MUST_CHECK;

/* Reports of the guard about slots from GUARD_STANDBY_SLOT on, and cold() about any slot. */
void standbys_spawned(struct standbys *s, uint32_t slot, pid_t pid);
void standbys_spawn_failed(struct standbys *s, uint32_t slot, int error);
void standbys_exited(struct standbys *s, uint32_t slot, int wait_status);
void standbys_warm(struct standbys *s, uint32_t slot);
void standbys_cold(struct standbys *s, uint32_t slot, const char *why);

#endif
