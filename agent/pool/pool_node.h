/* agent/pool/pool_node.h: runs --pool: this machine works for submitted jobs one after the
 * other, with one child agent per job. */
#ifndef TFE_AGENT_POOL_POOL_NODE_H
#define TFE_AGENT_POOL_POOL_NODE_H

#include <sys/resource.h>

#include "agent/agent_settings.h"
#include "common/base/error.h"
#include "common/credentials/join.h"
#include "common/text/reason.h"

struct event_base;
struct pool;

/* Waits for assignments and runs them until a signal. options is the command line that settings
 * were parsed from, without the program name, NULL-terminated; slot is the number of this node
 * on the machine, from 0; cores is the core dump limit of its agents. All pointers are borrowed.
 * Returns the exit code. */
int pool_run(const struct agent_settings *settings, const struct join_info *info,
             char *const *options, uint32_t slot, const struct rlimit *cores);

/* The parts of pool_run, for a caller that runs the event loop itself: the node leaves by breaking
 * the loop. pool_new returns NULL after printing why; pool_end frees the node and returns the exit
 * code. */
struct pool *pool_new(const struct agent_settings *settings, const struct join_info *info,
                      char *const *options, uint32_t slot, const struct rlimit *cores);
struct event_base *pool_base(const struct pool *p);
int pool_end(struct pool *p);

/* Checks that the other options fit --pool. Returns TFE_EINVAL with a sentence for an option that
 * belongs to a single job. */
int pool_check(const struct agent_settings *settings, int n_operands,
               struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
