/* agent/pool/slots.c: implementation of slots.h. */
#include "agent/pool/slots.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cli/log.h"
#include "common/cli/sd_notify.h"

/* Interval of the loop, for systemd's watchdog, and minimum time between two starts of a slot. */
#define TURN_S 1

struct slots {
    pid_t pid[SLOTS_MAX]; /* 0 if none runs */
    bool is_over[SLOTS_MAX];
    time_t started[SLOTS_MAX]; /* on the monotonic clock */
    uint32_t n;
    int signo; /* signal that ends the slots, or 0 if none arrived */
    int code;
};

/* Forks a slot's process. Returns true in the child. */
static bool start(struct slots *s, uint32_t slot)
{
    pid_t keeper = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        setsid(); /* the parent forwards terminal signals, once */
        if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) != 0 || getppid() != keeper) {
            _exit(EXIT_FAILURE);
        }
        sigprocmask(SIG_SETMASK, &none, NULL);
        return true;
    }
    s->pid[slot] = pid > 0 ? pid : 0;
    return false;
}

static void reap(struct slots *s)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (uint32_t i = 0; i < s->n; i++) {
            if (s->pid[i] != pid) {
                continue;
            }
            s->pid[i] = 0;
            s->is_over[i] = s->signo != 0 || WIFEXITED(status);
            if (WIFEXITED(status) && (s->code == 0 || WEXITSTATUS(status) < 128)) {
                s->code = WEXITSTATUS(status);
            } else if (!WIFEXITED(status)) {
                log_error("slot_died", LOG_U("slot", i), LOG_I("signal", WTERMSIG(status)));
            }
        }
    }
}

/* Returns true if the slot should be started; limits the rate of a slot that dies at its start. */
static bool may_start(struct slots *s, uint32_t slot)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (s->pid[slot] != 0 || s->is_over[slot] ||
        (s->started[slot] != 0 && now.tv_sec <= s->started[slot] + TURN_S)) {
        return false;
    }
    s->started[slot] = now.tv_sec;
    return true;
}

static bool all_are_over(const struct slots *s)
{
    uint32_t i = 0;
    while (i < s->n && s->is_over[i]) {
        i++;
    }
    return i == s->n;
}

bool slots_fork(uint32_t n, uint32_t *ret_slot, int *ret_code)
{
    struct slots s = {.n = n};
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGHUP);
    sigaddset(&watched, SIGCHLD);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    sd_notify_send("READY=1");
    while (!all_are_over(&s)) {
        for (uint32_t i = 0; i < n; i++) {
            *ret_slot = i;
            if (may_start(&s, i) && start(&s, i)) {
                return true;
            }
        }
        int signo = sigtimedwait(&watched, NULL, &(struct timespec){.tv_sec = TURN_S});
        sd_notify_send("WATCHDOG=1");
        if (signo > 0 && signo != SIGCHLD) {
            s.signo = signo;
            for (uint32_t i = 0; i < n; i++) {
                s.is_over[i] = s.is_over[i] || s.pid[i] == 0;
                if (s.pid[i] > 0) {
                    kill(s.pid[i], signo);
                }
            }
        }
        reap(&s);
    }
    *ret_code = s.code;
    return false;
}
