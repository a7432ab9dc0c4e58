/* agent/core/notices.h: termination notices for this machine, which the agent forwards to the
 * server.
 *
 * After a signal the agent exits as soon as its trainers have ended, at the latest when the grace
 * period ends; if no server is connected, it waits a few seconds for one. After any other notice
 * the agent stays connected without work until its machine disappears. If the machine is still
 * there 2 minutes after the deadline, the node is available again. */
#ifndef TFE_AGENT_CORE_NOTICES_H
#define TFE_AGENT_CORE_NOTICES_H

#include "agent/core/active_notices.h"
#include "agent/core/step_context.h"

struct notices {
    struct active_notices all;
    bool is_interrupt;         /* the first signal was SIGINT or SIGHUP */
    uint32_t signal;           /* the signal that ends the agent, or 0 if none */
    struct tfe_mono kill_at;   /* time when the trainers are killed because of the signal */
    struct tfe_mono grace_end; /* value of kill_at once a server has received the notice */
};

/* Returns TFE_EINVAL for an unknown kind of notice. */
int notices_apply(struct notices *n, struct step_context *t, const struct agent_notice *notice);
void notices_signal(struct notices *n, struct step_context *t, uint32_t signo);
void notices_welcome(struct notices *n, struct step_context *t);
void notices_tick(struct notices *n, struct step_context *t);

/* Ends the agent after a signal once nothing runs or kill_at has passed. Called at the end of every
 * step. */
void notices_settle(const struct notices *n, struct step_context *t);

/* Returns the time of the next notices_tick. */
struct tfe_mono notices_deadline(const struct notices *n, const struct step_context *t);

/* Returns true after a signal: the agent starts no more work. */
bool notices_end_agent(const struct notices *n);

/* Returns true if the signal came from a terminal rather than from a machine that is stopped. */
bool notices_is_interrupt(const struct notices *n);

/* Returns the exit code of a drained agent: 128 + signal, or 0 without a signal. */
int notices_exit_code(const struct notices *n);

#endif
