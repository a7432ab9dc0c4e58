/* agent/core/state.h: the complete state of an agent's core, for agent.c and tests.
 * Only the module of the same name accesses the fields of a part; others call its functions.
 *
 * Calls go in one direction (CMakeLists.txt has the order of the files):
 *
 *     agent.c (dispatch, handlers) -> the parts -> step_context.c
 *
 * A part requests JOIN, READY or the end of the agent by a flag in the step context; the dispatcher
 * acts on these flags after the handler returns. */
#ifndef TFE_AGENT_CORE_STATE_H
#define TFE_AGENT_CORE_STATE_H

#include "agent/core/link.h"
#include "agent/core/notices.h"
#include "agent/core/preparation.h"
#include "agent/core/processes.h"
#include "agent/core/progress.h"
#include "agent/core/step_context.h"
#include "agent/core/tables.h"
#include "agent/core/work.h"

struct agent {
    struct step_context step;
    struct link link;
    struct preparation preparation;
    struct tables tables;
    struct work work;
    struct progress progress;
    struct notices notices;
    struct processes processes;

    /* Fields of the dispatcher. */
    const struct tfe_mem *mem;
    bool begun;
    /* GOODBYE is sent; the agent waits until leave_by for the connection to close */
    bool goodbye_sent;
    struct tfe_mono leave_by;
    bool is_checking_out; /* CHECK_OUT was issued and CHECKED_OUT has not come */
    bool has_exited;      /* EXIT was issued; no further event is accepted */
    struct tfe_mono deadline;
};

#endif
