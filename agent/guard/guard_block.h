/* agent/guard/guard_block.h: serialises a spawn_spec into one memory block that the agent passes
 * through the guard to the child. */
#ifndef TFE_AGENT_GUARD_GUARD_BLOCK_H
#define TFE_AGENT_GUARD_GUARD_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_proto.h"

/* Writes spec into a sealed memfd, which the caller closes, and describes its contents in
 * *words. Returns TFE_ESYS with errno set. */
int guard_block_new(const struct spawn_spec *spec, struct guard_words *words,
                    int *ret_fd) TFE_MUST_CHECK;

/* Arguments of execve(2) and the working directory. */
struct guard_program {
    char **argv;
    char **envp;
    const char *directory;
};

/* Maps a block and builds its pointer arrays. The memory is never freed, because the process is
 * about to exec. Returns false with errno set. */
bool guard_block_open(const struct guard_words *words, int fd, struct guard_program *ret);

/* Sends n bytes (at most sizeof(struct guard_order)) with the descriptors. Returns false if the
 * socket cannot take the packet now. */
bool guard_send(int socket, const void *words, size_t n, const int fds[GUARD_FDS]);

/* Receives at most n bytes of one packet without blocking, and up to GUARD_FDS descriptors,
 * which the caller must close. Returns as recvmsg(2); *ret_n is 0 on error or EOF. */
ssize_t guard_receive(int socket, void *words, size_t n, int ret_fds[GUARD_FDS], size_t *ret_n);

#endif
