/* agent/pool/await.h: an agent of the pool that is there before its job: with its guard, and with a
 * standby that has imported what jobs need. */
#ifndef TFE_AGENT_POOL_AWAIT_H
#define TFE_AGENT_POOL_AWAIT_H

#include "agent/guard/guard.h"
#include "agent/settings.h"
#include "agent/trainers/trainers.h"
#include "common/base/error.h"
#include "common/net/why.h"

/* What it says of its standby on its socket, whenever that changes. */
struct await_said {
    uint32_t standby; /* enum tfe_standby */
    struct tfe_id tensorflow;
};

/* An agent whose job has come: all for the process's life, but for what runs the job, which
 * runner_run takes over, or awaited_let_go ends. The working directory and the environment are the
 * job's. */
struct awaited {
    int argc;
    char **argv;
    const char *directory; /* the working one */
    struct guard_process guard;
    struct event_base *base;
    struct trainers_ready ready;
    int kept;      /* keeps the job's directory, for the process's life */
    bool is_taken; /* base and ready are, with what guard says */
};

/* Forks the guard, starts the standby, and waits for what pool_child_give sends to the socket that
 * settings name. A signal ends the process meanwhile, and so does the socket's end. TFE_ESYS with
 * why, or "" where the pool is gone; nothing is left of it then. Preconditions: as of
 * guard_fork; there is no loop yet. */
int await_job(const struct agent_settings *settings, struct awaited *ret,
              struct tfe_why *why) TFE_MUST_CHECK;

/* Its job does not begin: guard, standby and loop end, where they were not taken over. */
void awaited_let_go(struct awaited *a);

#endif
