/* agent/standalone.h: runs a private server for --standalone, for a job on this machine only. */
#ifndef TFE_AGENT_STANDALONE_H
#define TFE_AGENT_STANDALONE_H

#include <stdint.h>

#include "agent/agent_settings.h"
#include "common/base/error.h"
#include "common/credentials/join.h"
#include "common/text/reason.h"

struct event_base;
struct standalone;

/* Returns TFE_EINVAL with a sentence if an option contradicts --standalone, i.e. names a server
 * or several machines. Environment variables that name a server are ignored, because they are
 * meant for other agents. */
int standalone_check(const struct agent_settings *settings,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* Creates the private directory for the server's keys. The guard, forked afterwards, removes it
 * if this process is killed. Borrows settings. Returns TFE_ESYS or TFE_ETOOBIG with reason set. */
int standalone_new(const struct agent_settings *settings, struct standalone **ret,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Starts tfe-rdzv, from beside this program or else from PATH, on a free loopback port, and
 * waits up to 10 s until it listens. The server dies with the calling thread (PDEATHSIG), so
 * call it on the main thread. Returns TFE_ESYS with reason set. */
int standalone_start(struct standalone *s, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Returns the endpoint and token of the running server, like join_find. */
int standalone_find(const struct standalone *s, struct join_info *ret,
                    struct tfe_reason *reason) TFE_MUST_CHECK;

/* Restarts the server whenever it dies, with the same keys, jobs and port, so that
 * trainers are not affected. */
void standalone_watch(struct standalone *s, struct event_base *base);

/* Stops restarting; call before the event base is freed. Accepts NULL. */
void standalone_unwatch(struct standalone *s);

/* Terminates the server, by SIGKILL after 3 s, and removes the directory. Accepts NULL. */
void standalone_free(struct standalone *s);

#endif
