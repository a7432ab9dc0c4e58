/* agent/core/standing.h: the active termination notices of this machine. The server receives the
 * strongest one after every change, and again on every new connection. Used for a job's agent
 * (notices.c) and for a pool node (agent/preemption/warnings.c).
 *
 * A notice expires 2 minutes after its deadline. A rebalance hint has no deadline and stays active
 * until it is withdrawn. */
#ifndef TFE_AGENT_CORE_STANDING_H
#define TFE_AGENT_CORE_STANDING_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/agent.h"
#include "common/base/time.h"
#include "common/message/msg.h"

/* Active notices by kind, and the one that the server has. All zero: no notice so far. */
struct standing {
    bool stands[NOTICE_OPERATOR + 1];
    struct agent_notice v[NOTICE_OPERATOR + 1];
    struct tfe_mono back_at[NOTICE_OPERATOR + 1]; /* expiry time of the notice */
    enum tfe_notice told;                         /* kind that the server has, or 0 if none */
    enum tfe_notice ever;                         /* last kind that was ever sent, or 0 */
    struct tfe_mono told_deadline;
};

/* Adds, updates or withdraws a notice of a valid kind; its source is not stored. Returns true if
 * the notice is new. */
bool standing_take(struct standing *s, struct tfe_mono now, const struct agent_notice *notice);
/* Adds a notice that never expires. */
void standing_keep(struct standing *s, const struct agent_notice *notice);
/* Removes expired notices. */
void standing_drop_old(struct standing *s, struct tfe_mono now);
/* Returns the next expiry time, or TFE_MONO_NEVER. */
struct tfe_mono standing_deadline(const struct standing *s);

/* Returns true if the server lacks the strongest notice: *ret is filled except for `interrupted`,
 * and the notice counts as sent. Set again on a new connection, because the last message, even a
 * withdrawal, may have been lost. */
bool standing_tell(struct standing *s, struct tfe_mono now, bool again, struct msg_notice *ret);

/* Returns the time until the deadline as NOTICE encodes it, or MSG_UNSET if the deadline is
 * unknown. */
uint32_t standing_ms_left(struct tfe_mono now, struct tfe_mono deadline);

#endif
