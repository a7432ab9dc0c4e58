/* agent/core/standing.h: which warnings stand that this machine will go away, and what the server
 * hears of them: the one that says most, at each change, and once more on each connection. Pure:
 * for a job's agent (notices.c), and for a node of the pool (agent/preemption/warnings.c).
 *
 * One that has not come true 2 minutes after its deadline stands no longer; a hint has none, and
 * stands until it is withdrawn. */
#ifndef TFE_AGENT_CORE_STANDING_H
#define TFE_AGENT_CORE_STANDING_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/agent.h"
#include "common/base/time.h"
#include "common/message/msg.h"

/* By kind; and what the server has heard of them. All zero: nothing stands, or ever did. */
struct standing {
    bool stands[NOTICE_OPERATOR + 1];
    struct agent_notice v[NOTICE_OPERATOR + 1];
    struct tfe_mono back_at[NOTICE_OPERATOR + 1]; /* it has not come true by then */
    enum tfe_notice told;                         /* 0: none stands */
    enum tfe_notice ever;                         /* the last that was told at all */
    struct tfe_mono told_deadline;
};

/* Of a legal kind; its source is not kept. True: none of its kind stood, and now one does. */
bool standing_take(struct standing *s, struct tfe_mono now, const struct agent_notice *notice);
/* Likewise one that stands for good. */
void standing_keep(struct standing *s, const struct agent_notice *notice);
/* What has not come true by its time is over. */
void standing_drop_old(struct standing *s, struct tfe_mono now);
/* When there will be something to drop; TFE_MONO_NEVER. */
struct tfe_mono standing_deadline(const struct standing *s);

/* What the server is to hear that it has not. True: *ret, but for interrupted, is to be said, and
 * counts as said from now on. again: on a new connection, where what was told on the last, a
 * withdrawal too, may have been lost. */
bool standing_tell(struct standing *s, struct tfe_mono now, bool again, struct msg_notice *ret);

/* As NOTICE says it; MSG_UNSET: none is known. */
uint32_t standing_ms_left(struct tfe_mono now, struct tfe_mono deadline);

#endif
