/* agent/guard/spawn_block.h: serialises a spawn_spec into one memory block that the agent passes
 * through the guard to the child. */
#ifndef TFE_AGENT_GUARD_SPAWN_BLOCK_H
#define TFE_AGENT_GUARD_SPAWN_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_proto.h"

/* Writes spec into a sealed memfd, which the caller closes, and describes its contents in
 * *words. Returns TFE_ESYS with errno set. */
int spawn_block_new(const struct spawn_spec *spec, struct spawn_block_header *header,
                    int *ret_fd) TFE_MUST_CHECK;

/* Arguments of execve(2) and the working directory. */
struct spawn_program {
    char **argv;
    char **envp;
    const char *directory;
};

/* Maps a block and builds its pointer arrays. The memory is never freed, because the process is
 * about to exec. Returns false with errno set. */
bool spawn_block_map(const struct spawn_block_header *header, int fd, struct spawn_program *ret);

/* Sends n bytes (at most sizeof(struct guard_order)) with the descriptors. Returns false if the
 * socket cannot take the packet now. */
bool guard_send(int socket, const void *bytes, size_t n, const int fds[GUARD_FDS]);

/* Receives at most n bytes of one packet without blocking, and up to GUARD_FDS descriptors,
 * which the caller must close. Returns as recvmsg(2); *ret_n is 0 on error or EOF. */
ssize_t guard_receive(int socket, void *bytes, size_t n, int ret_fds[GUARD_FDS], size_t *ret_n);

#endif
