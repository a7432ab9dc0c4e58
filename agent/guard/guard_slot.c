/* agent/guard/guard_slot.c: a slot of tfe-guard and the process in it. */
#include <string.h>

#include "agent/guard/guard_state.h"
#include "common/base/fd.h"

bool slot_has_process(const struct slot *slot)
{
    return slot->state == SLOT_STARTING || slot->state == SLOT_RUNNING;
}

void hand_close(struct hand *hand)
{
    for (size_t i = 0; hand->is_open && i < GUARD_FDS; i++) {
        fd_drop(&hand->fds[i]);
    }
    hand->is_open = false;
}

void slot_reset(struct guard *g, struct slot *slot)
{
    fd_drop(&slot->control);
    fd_drop(&slot->report);
    guard_group_leave(&g->groups, slot->group);
    hand_close(&slot->hand); /* open if the process was killed before it confirmed a hand-over */
    memset(slot, 0, sizeof *slot);
    slot->control = -1;
    slot->report = -1;
}
