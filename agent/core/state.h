/* agent/core/state.h: an agent's core, put together from its parts. For the door and the handlers:
 * each part's fields belong to the file of its name, everybody else asks through its header.
 *
 * An event goes one way, and so do the calls (CMakeLists.txt has the order of the files):
 *
 *     agent.c, the door -> on_start.c and the small handlers -> the parts -> turn.c
 *
 * What a part wants of those above it, it leaves as a wish in the turn; the door settles the wishes
 * when the handler is through: JOIN, READY, the process ids, the way out. */
#ifndef TFE_AGENT_CORE_STATE_H
#define TFE_AGENT_CORE_STATE_H

#include "agent/core/link.h"
#include "agent/core/notices.h"
#include "agent/core/processes.h"
#include "agent/core/progress.h"
#include "agent/core/ready.h"
#include "agent/core/tables.h"
#include "agent/core/turn.h"
#include "agent/core/work.h"

struct agent {
    struct turn turn;
    struct link link;
    struct ready ready;
    struct tables tables;
    struct work work;
    struct progress progress;
    struct notices notices;
    struct processes processes;

    /* The door's own. */
    const struct tfe_mem *mem;
    bool begun;
    bool said_goodbye; /* wait for the close … */
    struct tfe_mono leave_by;
    bool over; /* EXIT has been said */
    struct tfe_mono deadline;
};

/* --- on_start.c --- */
void on_start(struct agent *a, const struct msg_start *start);
void on_restart(struct agent *a, const struct msg_restart *restart);

#endif
