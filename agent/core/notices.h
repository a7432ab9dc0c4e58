/* agent/core/notices.h: warnings that this machine will go away, told to the server, which plans
 * for it.
 *
 * A signal ends the agent once its trainers have ended, on the server's word or at the last moment;
 * a server that is away just then has some seconds to come back. After any other notice it stays,
 * without work, until its machine goes; where that does not come true it is back in the job 2
 * minutes after the deadline. */
#ifndef TFE_AGENT_CORE_NOTICES_H
#define TFE_AGENT_CORE_NOTICES_H

#include "agent/core/standing.h"
#include "agent/core/turn.h"

struct notices {
    struct standing all;
    bool is_interrupt;           /* the first signal was one of a terminal's */
    uint32_t signal;             /* this one ends the agent once its trainers have ended; 0 none */
    struct tfe_mono out_at;      /* … and ends them then in any case */
    struct tfe_mono last_moment; /* what out_at is once a server has heard of it */
};

/* TFE_EINVAL: no such kind. */
int notices_take(struct notices *n, struct turn *t, const struct agent_notice *notice);
void notices_signal(struct notices *n, struct turn *t, uint32_t signo);
void notices_welcome(struct notices *n, struct turn *t);
void notices_tick(struct notices *n, struct turn *t);

/* At the end of every step: the way out after a signal, once nothing runs or at the last moment. */
void notices_settle(const struct notices *n, struct turn *t);

/* When it wants to be ticked. */
struct tfe_mono notices_deadline(const struct notices *n, const struct turn *t);

/* A signal has said that this process ends: nothing is begun here any more. */
bool notices_mean_end(const struct notices *n);

/* … and it was one that a person's terminal sends, not a machine that goes away. */
bool notices_are_interrupt(const struct notices *n);

/* What a process that was drained exits with. */
int notices_exit_code(const struct notices *n);

#endif
