/* agent/pool/finish.h: --on-finish: what is run once this machine has left the pool, as nobody
 * needs it any more. */
#ifndef TFE_AGENT_POOL_FINISH_H
#define TFE_AGENT_POOL_FINISH_H

/* Runs the command by /bin/sh, with the pool's environment and TFE_FINISH (why, a word) and
 * TFE_NODE_NAME in it, and waits for it, FINISH_WITHIN_S at most: then it is killed, with its
 * session's group. What becomes of it is said in the log. */
#define FINISH_WITHIN_S 60
void finish_run(const char *command, const char *node_name, const char *reason);

#endif
