/* server/scale_beside.c: see scale_beside.h. */
#include "server/scale_beside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/net/log.h"
#include "common/net/state_dir.h"
#include "server/keeper.h"

#define SHELL "/bin/sh"

struct run {
    const struct scale_settings *settings;
    char lock[PATH_MAX];
    int in, out; /* memory: nobody waits for who does not read or write */
};

static void run_command(void *ctx)
{
    const struct run *r = ctx;
    if (dup2(r->in, STDIN_FILENO) >= 0 && dup2(r->out, STDOUT_FILENO) >= 0) {
        (void)execl(SHELL, "sh", "-c", r->settings->command, (char *)NULL);
    }
    log_error("scale_not_started", LOG_S("why", strerror(errno)));
}

/* The command's input, and room for its output, which cannot grow beyond it. */
static bool make_files(struct run *r, const char *text, size_t n)
{
    r->in = memfd_create("tfe-scale-in", MFD_CLOEXEC);
    r->out = memfd_create("tfe-scale-out", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return r->in >= 0 && r->out >= 0 && write(r->in, text, n) == (ssize_t)n &&
           lseek(r->in, 0, SEEK_SET) == 0 && ftruncate(r->out, SCALE_TEXT_MAX) == 0 &&
           fcntl(r->out, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0;
}

static void close_one(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* False: the server is gone, and so is the command. */
static bool run_once(const struct keeper *k, struct run *r, size_t n, struct scale_answer *answer)
{
    int status = -1;
    bool stays = true;
    int lock = open(r->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    answer->end = SCALE_NOT_STARTED;
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0) {
        answer->end = SCALE_BUSY;
    } else if (lock >= 0 && make_files(r, answer->text, n)) {
        const pid_t child = keeper_spawn(SIGKILL, run_command, r);
        if (child > 0) {
            stays = keeper_waits(k, child, r->settings->timeout_ms, &status);
            if (status == -1) {
                keeper_end(child);
            } else {
                (void)kill(-child, SIGKILL); /* whom it left behind */
            }
            answer->end = status == -1        ? SCALE_LATE
                          : WIFEXITED(status) ? WEXITSTATUS(status)
                                              : 128 + WTERMSIG(status);
        }
    }
    memset(answer->text, 0, sizeof(answer->text));
    if (answer->end == 0 && pread(r->out, answer->text, SCALE_TEXT_MAX, 0) < 0) {
        answer->end = SCALE_NOT_STARTED;
    }
    close_one(&r->in);
    close_one(&r->out);
    close_one(&lock);
    return stays;
}

static void keep(const struct keeper *k, void *ctx)
{
    struct scale_answer *answer = malloc(sizeof(*answer));
    ssize_t n = answer ? 1 : 0;
    while (n > 0) {
        n = recv(k->server, answer->text, SCALE_TEXT_MAX, 0);
        if (n > 0 &&
            (!run_once(k, ctx, (size_t)n, answer) ||
             send(k->server, answer, SCALE_ANSWER_HEAD + strlen(answer->text), MSG_NOSIGNAL) < 0)) {
            n = 0;
        }
    }
    free(answer);
}

int scale_beside_start(int *ret, const struct scale_settings *settings, const char *state_dir,
                       struct tfe_why *why)
{
    struct run run = {.settings = settings, .in = -1, .out = -1};
    int rc = state_dir_path(run.lock, state_dir, SCALE_LOCK, why);
    return rc != 0 ? rc : keeper_start("tfe-rdzv-scale", SOCK_SEQPACKET, keep, &run, ret, why);
}
