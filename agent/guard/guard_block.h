/* agent/guard/guard_block.h: what a trainer is started with, as one block of memory on its way from
 * the agent over the guard to the child. */
#ifndef TFE_AGENT_GUARD_GUARD_BLOCK_H
#define TFE_AGENT_GUARD_GUARD_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_proto.h"

/* Writes spec into a sealed memfd (the caller closes it) and says in words what it holds.
 * TFE_ESYS with errno. */
int guard_block_new(const struct spawn_spec *spec, struct guard_words *words,
                    int *ret_fd) TFE_MUST_CHECK;

/* argv, environment and directory as execve(2) wants them. */
struct guard_program {
    char **argv;
    char **envp;
    const char *directory;
};

/* Lays pointers over the block. Memory of a process that is about to exec: never freed. False with
 * errno. */
bool guard_block_open(const struct guard_words *words, int fd, struct guard_program *ret);

/* Sends n bytes, no more than an order has, with the descriptors. False: the socket takes nothing
 * now. */
bool guard_send(int socket, const void *words, size_t n, const int fds[GUARD_FDS]);

/* As recvmsg(2), without waiting: at most n bytes of one packet, and its *ret_n descriptors (on an
 * error, or at the end, none), which are the caller's. */
ssize_t guard_receive(int socket, void *words, size_t n, int ret_fds[GUARD_FDS], size_t *ret_n);

#endif
