/* agent/pool/finish.h: runs the --on-finish command after this machine has left the pool. */
#ifndef TFE_AGENT_POOL_FINISH_H
#define TFE_AGENT_POOL_FINISH_H

/* Runs the command by /bin/sh with the pool's environment plus TFE_FINISH (reason, one word) and
 * TFE_NODE_NAME. Waits up to FINISH_WITHIN_S, then kills its process group. Logs the result. */
#define FINISH_WITHIN_S 60
void finish_run(const char *command, const char *node_name, const char *reason);

#endif
