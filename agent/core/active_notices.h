/* agent/core/active_notices.h: the active termination notices of this machine. The server receives
 * the strongest one after every change, and again on every new connection. Used for a job's agent
 * (notices.c) and for a pool node (agent/preemption/pool_notices.c).
 *
 * A notice expires 2 minutes after its deadline. A rebalance hint has no deadline and stays active
 * until it is withdrawn. */
#ifndef TFE_AGENT_CORE_ACTIVE_NOTICES_H
#define TFE_AGENT_CORE_ACTIVE_NOTICES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/agent.h"
#include "common/base/time.h"
#include "common/message/msg.h"

/* Active notices by kind, and the one that the server has. All zero: no notice so far. */
struct active_notices {
    bool is_active[NOTICE_OPERATOR + 1];
    struct agent_notice v[NOTICE_OPERATOR + 1];
    struct tfe_mono expires_at[NOTICE_OPERATOR + 1]; /* expiry time of the notice */
    enum tfe_notice sent_kind;                       /* kind that the server has, or 0 if none */
    enum tfe_notice last_kind;                       /* last kind that was ever sent, or 0 */
    struct tfe_mono sent_deadline;
};

/* Adds, updates or withdraws a notice of a valid kind; its source is not stored. Returns true if
 * the notice is new. */
bool active_notices_apply(struct active_notices *s, struct tfe_mono now,
                          const struct agent_notice *notice);
/* Adds a notice that never expires. */
void active_notices_add_permanent(struct active_notices *s, const struct agent_notice *notice);
/* Removes expired notices. */
void active_notices_expire(struct active_notices *s, struct tfe_mono now);
/* Returns the next expiry time, or TFE_MONO_NEVER. */
struct tfe_mono active_notices_next_expiry(const struct active_notices *s);

/* Returns true if the server lacks the strongest notice: *ret is filled except for `interrupted`,
 * and the notice counts as sent. Set again on a new connection, because the last message, even a
 * withdrawal, may have been lost. */
bool active_notices_next_message(struct active_notices *s, struct tfe_mono now, bool again,
                                 struct msg_notice *ret);

/* Returns the time until the deadline as NOTICE encodes it, or MSG_UNSET if the deadline is
 * unknown. */
uint32_t notice_ms_left(struct tfe_mono now, struct tfe_mono deadline);

#endif
