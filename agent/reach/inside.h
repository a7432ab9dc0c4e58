/* agent/reach/inside.h: the files of a container, which the trainers of a job with an image see:
 * our own children go in there and run its programs, so that they are ours to end, whatever becomes
 * of the container. */
#ifndef TFE_AGENT_REACH_INSIDE_H
#define TFE_AGENT_REACH_INSIDE_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/net/why.h"

/* What a process of the container sees is what inside_enter leads to, for the rest of this one's
 * life, and for the guard that is forked later: it stays there for us when the container ends.
 * directory is where to work there, borrowed for ever. TFE_ESYS with why. */
int inside_set(pid_t pid, const char *directory, struct tfe_why *why) TFE_MUST_CHECK;
bool inside_is_set(void);

/* In a guard, whose descriptors have fixed numbers: it has those that are needed as at and at + 1.
 * Where there is no container these two are closed. */
#define INSIDE_FDS 2
void inside_keep(int at);

/* A guard that starts nothing any more holds nobody's files. */
void inside_leave(void);

/* Between fork and exec, while still root: goes in, and into the directory if there is one. From
 * then on no program of the image gives its caller rights that he does not have (setuid). Without a
 * container nothing. TFE_ESYS with errno. */
int inside_enter(void) TFE_MUST_CHECK;

#endif
