/* server/actions.h: carries out what a step of the core asks for, in its order. */
#ifndef TFE_SERVER_ACTIONS_H
#define TFE_SERVER_ACTIONS_H

#include "server/core/rdzv.h"
#include "server/sessions.h"

/* The core is not to be stepped before this returns. */
void actions_run(const struct rdzv_actions *actions, struct sessions *sessions);

#endif
