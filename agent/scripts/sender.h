/* agent/scripts/sender.h: who sent a datagram, and whether it may. */
#ifndef TFE_AGENT_SCRIPTS_SENDER_H
#define TFE_AGENT_SCRIPTS_SENDER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Parents between a trainer and what sends for it. */
#define SENDER_DEPTH_MAX 64

/* The credentials that the kernel put beside a message received with SO_PASSCRED. False: none. */
bool sender_of(struct msghdr *message, struct ucred *ret);

/* False if it can be told that pid does not run below root: its parents could be read, and root is
 * not among them. A process of another pid namespace (0), or one that has ended since, cannot be
 * told. */
bool sender_may_be_below(pid_t pid, pid_t root);

#endif
