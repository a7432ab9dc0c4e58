/* agent/trainers/image_command.c: see image_command.h. */
#include "agent/trainers/image_command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/reach/inside.h"
#include "agent/reach/proc.h"
#include "agent/trainers/environment.h"

extern char **environ;

/* What a process in there has found. */
struct found {
    int rc;
    struct tfe_why why;
    char program[PATH_MAX];
    uint64_t digest;
};

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* In the process. An engine may have started the container on another machine: the directory that
 * it was to share is none of ours there. */
static int look(const struct image_command *wish, const struct stat *shared, struct found *found)
{
    struct stat there;
    struct command command;
    char **env;
    if (inside_enter() != 0) {
        why_errno(&found->why, "enter the container");
        return TFE_ESYS;
    }
    if (stat(wish->shared, &there) != 0 || !is_same_file(shared, &there)) {
        why_set(&found->why, "the container does not see this machine's %s", wish->shared);
        return TFE_ESYS;
    }
    if (chdir(wish->directory) != 0) {
        why_errno(&found->why, "enter %s in the image", wish->directory);
        return TFE_EINVAL;
    }
    if (environment_new((const char *const *)environ, NULL, &env) != 0) {
        why_set(&found->why, "out of memory");
        return TFE_ENOMEM;
    }
    environ = env; /* the search is by the trainer's PATH */
    int rc = command_new(wish->operands, wish->count, wish->python, wish->module, wish->no_python,
                         &command, &found->why);
    if (rc == 0) {
        (void)snprintf(found->program, sizeof found->program, "%s", command.argv[0]);
        found->digest = command.digest;
    }
    return rc;
}

static int take(const struct image_command *wish, const struct found *found, struct command *ret,
                struct tfe_why *why)
{
    *why = found->why;
    if (found->rc) {
        return found->rc;
    }
    char *program = strdup(found->program);
    int rc = program ? command_make(wish->operands, wish->count, wish->module, wish->no_python,
                                    program, ret, why)
                     : TFE_ENOMEM;
    if (rc) {
        free(program);
        why_set(why, "out of memory");
        return rc;
    }
    ret->digest = found->digest;
    ret->directory = wish->directory;
    return 0;
}

int image_command_new(const struct image_command *wish, struct command *ret, struct tfe_why *why)
{
    struct stat shared;
    struct found *found =
        mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) {
        why_errno(why, "mmap");
        return TFE_ENOMEM;
    }
    int rc = TFE_ESYS;
    found->rc = TFE_ESYS;
    why_set(&found->why, "look into the container: who did was killed");
    pid_t pid = stat(wish->shared, &shared) == 0 ? proc_fork_blocked() : -1;
    if (pid == 0) {
        found->rc = look(wish, &shared, found);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, NULL, 0) != pid) {
        why_errno(why, "look into the container");
    } else {
        rc = take(wish, found, ret, why);
    }
    (void)munmap(found, sizeof *found);
    return rc;
}
