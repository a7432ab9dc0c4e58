/* agent/standalone.h: --standalone: a server of this agent's own, for a job on this machine alone.
 */
#ifndef TFE_AGENT_STANDALONE_H
#define TFE_AGENT_STANDALONE_H

#include <stdint.h>

#include "agent/agent_settings.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/channel/join.h"

struct event_base;
struct standalone;

/* Whether --standalone fits the other options. One that names a server, or several machines, does
 * not: TFE_EINVAL with one sentence. What names a server in the environment is passed over, as it
 * is meant for other agents. */
int standalone_check(const struct agent_settings *settings,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* Makes the private directory that the server's keys will lie in; the guard, which is forked after
 * this, removes it if this process is killed. settings are borrowed for the life. TFE_ESYS,
 * TFE_ETOOBIG with why. */
int standalone_new(const struct agent_settings *settings, struct standalone **ret,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Starts tfe-rdzv, the one beside this program or else the first in PATH, on a free port of
 * loopback, and waits until it listens (10 s at most). It ends with this process, whatever ends
 * that. Call it on the thread that lives as long as the process. TFE_ESYS with why. */
int standalone_start(struct standalone *s, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Endpoint and token of the server that was started, as join_find gives them. */
int standalone_find(const struct standalone *s, struct join_info *ret,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

/* From now on a server that dies is started again, with its keys, its jobs and its port, so that no
 * trainer notices. */
void standalone_watch(struct standalone *s, struct event_base *base);

/* No longer; before the base goes. NULL is allowed. */
void standalone_unwatch(struct standalone *s);

/* Ends the server and waits for that (3 s, then it is killed); removes the directory. NULL is
 * allowed.
 */
void standalone_free(struct standalone *s);

#endif
