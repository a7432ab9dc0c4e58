/* server/web_beside.c: see web_beside.h. */
#include "server/web_beside.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/backoff.h"
#include "common/net/beside.h"
#include "common/net/clock.h"
#include "common/net/state_dir.h"
#include "server/keeper.h"

#define PROGRAM "tfe-web"
/* Between its end and its next start. */
#define AGAIN_FIRST_MS 1000
#define AGAIN_MAX_MS 30000
/* One that was there for so long starts again without a longer pause. */
#define WELL_MS 60000

struct web {
    char program[PATH_MAX];
    char token[PATH_MAX];
    char port[12];
    const char *state_dir;
    const char *level, *format;
};

static void run_program(void *ctx)
{
    const struct web *w = ctx;
    const char *argv[] = {PROGRAM,       "--port",       w->port,        "--bind", "127.0.0.1",
                          "--state-dir", w->state_dir,   "--token-file", w->token, "--log-level",
                          w->level,      "--log-format", w->format,      NULL};
    union {
        const char **from;
        char *const *to;
    } words = {.from = argv}; /* execvp writes to none of them */
    (void)execvp(w->program, words.to);
    log_error("web_not_started", LOG_S("program", w->program), LOG_S("why", strerror(errno)));
}

/* Until the server is gone. */
static void keep(const struct keeper *k, void *ctx)
{
    struct web *w = ctx;
    uint32_t again_ms = 0;
    int status;
    char word;
    beside_find(PROGRAM, w->program);
    if (recv(k->server, &word, 1, 0) <= 0) {
        return; /* it never listened */
    }
    for (;;) {
        struct tfe_mono began = clock_mono();
        pid_t child = keeper_spawn(SIGTERM, run_program, w);
        if (child > 0 && !keeper_waits(k, child, -1, &status)) {
            keeper_end(child);
            return;
        }
        bool was_well = tfe_mono_sub(clock_mono(), began) >= WELL_MS;
        again_ms = backoff_next(was_well ? 0 : again_ms, AGAIN_FIRST_MS, AGAIN_MAX_MS);
        log_warn("web_ended",
                 LOG_I("status", child > 0 && WIFEXITED(status) ? WEXITSTATUS(status)
                                 : child > 0                    ? 128 + WTERMSIG(status)
                                                                : -1),
                 LOG_U("again_ms", again_ms));
        if (!keeper_waits(k, 0, again_ms, &status)) {
            return;
        }
    }
}

int web_beside_start(int *ret, uint32_t port, const char *state_dir, enum log_level level,
                     enum log_format format, struct tfe_why *why)
{
    struct web w = {
        .state_dir = state_dir, .level = log_levels[level], .format = log_formats[format]};
    int rc = state_dir_path(w.token, state_dir, state_dir_token_name(PRINCIPAL_OBSERVER), why);
    (void)snprintf(w.port, sizeof(w.port), "%u", port);
    return rc != 0 ? rc : keeper_start("tfe-rdzv-web", SOCK_STREAM, keep, &w, ret, why);
}

void web_beside_begin(int fd)
{
    if (fd >= 0 && send(fd, "", 1, MSG_NOSIGNAL) != 1) {
        log_warn("web_not_started", LOG_S("why", strerror(errno)));
    }
}
