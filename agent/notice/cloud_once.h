/* agent/notice/cloud_once.h: what the cloud says of this machine, for who hears no warnings. */
#ifndef TFE_AGENT_NOTICE_CLOUD_ONCE_H
#define TFE_AGENT_NOTICE_CLOUD_ONCE_H

#include "agent/notice/choice.h"
#include "agent/notice/cloud.h"

struct cloud_once;
struct event_base;

/* Asks the clouds that choice wants, as the watch for warnings does; no other source of it is
 * looked at. told comes once, from the loop, with what is known then, or never; nothing is asked
 * any more after it. choice is copied. */
struct cloud_once *cloud_once_new(struct event_base *base, const struct notice_choice *choice,
                                  void (*told)(void *ctx, const struct cloud_facts *facts),
                                  void *ctx);

/* NULL is allowed. */
void cloud_once_free(struct cloud_once *once);

#endif
