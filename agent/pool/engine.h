/* agent/pool/engine.h: podman or docker, by their command lines: a container of an image stands for
 * as long as somebody holds a pipe. Nothing is run in it but cat, which waits for the pipe's end;
 * what trainers need of it are its files. */
#ifndef TFE_AGENT_POOL_ENGINE_H
#define TFE_AGENT_POOL_ENGINE_H

#include <stddef.h>

struct scratch;

/* Directories of the machine that a container sees as themselves. */
#define ENGINE_SHARED_MAX 4

/* Borrowed for ever. */
struct engine_wish {
    const char *engine;  /* podman, docker: looked up in PATH */
    const char *options; /* more of its run's, parted by blanks; NULL: none */
    const char *image;
    const char *name; /* of the container: nobody else's */
    /* The trainers' user must be able to enter each; NULL: one less. */
    const char *shared[ENGINE_SHARED_MAX];
    const char *tools; /* … which is shared for reading; NULL: none */
    const struct scratch *scratch;
};

/* What it says first, once: ENGINE_UP, then the number of a process in there, the directory that
 * the image wants to work in, and its variables, each with a NUL behind it; or ENGINE_FAILED and a
 * sentence. Nothing: it was ended meanwhile. */
enum engine_says { ENGINE_UP = 'U', ENGINE_FAILED = 'F' };
#define ENGINE_SAYS_MAX (48u * 1024u) /* fits a pipe, and what an execve takes */

/* Lives in a process of its own, which ends with the container: once lifeline, the reading end of a
 * pipe, has no writer any more, or the container ends by itself. It has removed it then, and if it
 * never stood cleared scratch. words is where it says something. Precondition: all signals are
 * blocked (proc_fork_blocked). */
_Noreturn void engine_keep(const struct engine_wish *wish, int lifeline, int words);

#endif
