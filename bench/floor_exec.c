/* bench/floor_exec.c: the floor of a trainer's cold start: creating a process for a program until
 * the kernel has started it.
 *
 * Usage: tfe-bench-exec TURNS PROGRAM [ARGUMENT…]
 * Prints a JSON list of milliseconds: from vfork(2) to the end of execve(2), when the parent
 * continues. The program's output goes to /dev/null, and each process is reaped before the next one
 * starts. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/machine.h"

int main(int argc, char **argv)
{
    if (argc < 3) {
        return 2;
    }
    posix_spawn_file_actions_t quietly;
    if (posix_spawn_file_actions_init(&quietly) ||
        posix_spawn_file_actions_addopen(&quietly, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)) {
        return 1;
    }
    const unsigned long turns = strtoul(argv[1], NULL, 10);
    for (unsigned long i = 0; i < turns; i++) {
        pid_t pid;
        const uint64_t began = machine_ns(CLOCK_MONOTONIC);
        const int rc = posix_spawn(&pid, argv[2], &quietly, NULL, &argv[2], environ);
        const uint64_t ns = machine_ns(CLOCK_MONOTONIC) - began;
        int status;
        if (rc || waitpid(pid, &status, 0) != pid || status != 0) {
            (void)fprintf(stderr, "tfe-bench-exec: %s did not run\n", argv[2]);
            return 1;
        }
        (void)printf("%s%.4f", i ? ", " : "[", (double)ns / 1e6);
    }
    (void)printf("]\n");
    return posix_spawn_file_actions_destroy(&quietly) ? 1 : 0;
}
