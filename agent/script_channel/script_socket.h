/* agent/script_channel/script_socket.h: the datagram socket between the agent and the scripts. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_SCRIPT_SOCKET_H
#define TFE_AGENT_SCRIPT_CHANNEL_SCRIPT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "common/base/error.h"

/* Creates a non-blocking socket with this path, to which the trainers' user may send. Returns -1
 * with errno set. */
int script_socket_open(const char *path);

/* Receives a datagram of at most cap bytes. Returns its length, which is greater than cap if it was
 * longer, or -1 if there is none. Without credentials the sender has pid 0 and an invalid user. */
ssize_t script_socket_receive(int fd, char *bytes, size_t cap, struct ucred *ret_sender);

/* Sends a datagram, with a descriptor if file is not -1, to the socket of the script with this pid
 * in the private directory dir. Returns 0, TFE_ESTATE to retry later, or TFE_ESYS if the script is
 * gone. */
int script_socket_send(int fd, int dir, pid_t pid, const char *text, size_t n,
                       int file) TFE_MUST_CHECK;

/* Returns false if the process is known not to be a descendant of this one. A process of another
 * pid namespace (pid 0) or one that has ended cannot be checked and is accepted. */
bool script_socket_may_be_descendant(pid_t pid);

#endif
