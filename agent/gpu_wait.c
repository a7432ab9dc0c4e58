/* agent/gpu_wait.c: implementation of gpu_wait.h.
 *
 *   MEASURING --result--> OVER --gpu_wait_begin--> WAITING --memory free, or limit--> OVER */
#include "agent/gpu_wait.h"

#include <event2/event.h>
#include <stdlib.h>

#include "agent/os/child_process.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"

/* Prints the memory in use on all GPUs in MiB, or "none". */
static const char command[] =
    "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits |"
    " awk '$1 ~ /^[0-9]+$/ { n++; used += $1 } END { print n ? used : \"none\" }'";
/* Time limit of nvidia-smi, as for checks (health.c). */
#define COMMAND_LIMIT_MS 60000
#define POLL_MS 500
/* Other processes on the machine may use some more than before. */
#define TOLERANCE_MIB 512

struct gpu_wait {
    struct gpu_wait_config config;
    enum { MEASURING, OVER, WAITING } state;
    int64_t used_before; /* MiB in use before any trainer; -1 if unknown */
    struct tfe_mono until;
    struct child_process *process;
    struct event *again;
    char **env;
};

static void finish(struct gpu_wait *g)
{
    g->state = OVER;
    g->config.over(g->config.ctx);
}

/* Returns the number of MiB that the command printed, or -1. */
static int64_t used_of(const struct child_process_result *result)
{
    char *end;
    const long long used = strtoll(result->line, &end, 10);
    return child_process_succeeded(result) && end != result->line && *end == '\0' ? used : -1;
}

static void on_ended(void *ctx, const struct child_process_result *result)
{
    struct gpu_wait *g = ctx;
    const int64_t used = used_of(result);
    if (g->state == MEASURING) {
        g->used_before = used;
        if (used < 0) {
            log_warn("no_gpu_memory_wait", LOG_S("reason", "nvidia-smi reports no GPU memory"));
        }
        finish(g);
        return;
    }
    if (used >= 0 && used <= g->used_before + TOLERANCE_MIB) {
        finish(g);
    } else if (!tfe_mono_before(clock_mono(), g->until)) {
        log_warn("gpu_memory_in_use", LOG_I("mib", used), LOG_I("before_mib", g->used_before),
                 LOG_U("waited_ms", g->config.limit_ms));
        finish(g);
    } else {
        timer_after(g->again, POLL_MS);
    }
}

static void on_again(evutil_socket_t fd, short what, void *ctx)
{
    struct gpu_wait *g = ctx;
    struct tfe_reason reason;
    const struct child_process_config config = {.base = g->config.base,
                                                .command = command,
                                                .env = g->env,
                                                .ignores_stderr = true,
                                                .limit_ms = COMMAND_LIMIT_MS,
                                                .ended = on_ended,
                                                .ctx = g};
    if (child_process_start(&config, &g->process, &reason)) {
        log_warn("no_gpu_memory_wait", LOG_S("reason", reason.text));
        finish(g);
    }
}

struct gpu_wait *gpu_wait_new(const struct gpu_wait_config *config)
{
    struct gpu_wait *g = must_alloc(sizeof *g);
    *g = (struct gpu_wait){.config = *config,
                           .state = config->limit_ms ? MEASURING : OVER,
                           .used_before = -1,
                           .again = evtimer_new(config->base, on_again, g),
                           .env = child_process_env(config->options)};
    must_succeed(g->again);
    if (g->state == MEASURING) {
        timer_after(g->again, 0);
    }
    return g;
}

void gpu_wait_free(struct gpu_wait *g)
{
    if (g) {
        child_process_free(g->process);
        event_drop(&g->again);
        free(g->env);
        free(g);
    }
}

void gpu_wait_begin(struct gpu_wait *g)
{
    if (g->state == OVER && g->used_before >= 0) {
        g->state = WAITING;
        g->until = tfe_mono_add(clock_mono(), g->config.limit_ms);
        timer_after(g->again, 0);
    }
}

bool gpu_wait_is_over(const struct gpu_wait *g)
{
    return g->state == OVER;
}
