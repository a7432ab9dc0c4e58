/* agent/guard/guard.h: tfe-guard, the small process that starts trainers and kills every one of
 * them. */
#ifndef TFE_AGENT_GUARD_GUARD_H
#define TFE_AGENT_GUARD_GUARD_H

#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/net/why.h"

/* Slots of one guard: MSG_NPROC_MAX trainers, then as many standbys. */
#define GUARD_SLOTS 128
#define GUARD_STANDBY_SLOT 64

struct guard_process {
    pid_t pid;
    int fd; /* the agent's end of the SOCK_SEQPACKET pair; close-on-exec */
};

/* Where main's argv lies, so that the guard can write its name over its copy (ps then shows
 * tfe-guard, and not the agent's command line a second time). Before guard_fork; without it only
 * the short name is set. */
void guard_title_area(int argc, char **argv);

/* A directory of the agent's (private_dir.h) that may not be empty of other processes' files the
 * moment the agent is killed: its guard removes it at its own end. Before guard_fork; the path is
 * copied. Those that only the agent writes to the guard finds by itself. */
void guard_remove_at_end(const char *path);

/* Forks the guard. It lives in its own session, ignores terminal signals and SIGTERM, is a child
 * subreaper (also of what double-forks), keeps of the descriptors only its end of the pair and
 * stderr, and is named tfe-guard. It ends only when its pipe to the agent reaches EOF, after the
 * last descendant is reaped. The caller must be single-threaded in what it shares (no lock may be
 * held). TFE_ESYS with why. In the child this never returns. */
int guard_fork(struct guard_process *ret, struct tfe_why *why) TFE_MUST_CHECK;

#endif
