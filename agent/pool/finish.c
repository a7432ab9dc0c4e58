/* agent/pool/finish.c: implementation of finish.h. */
#include "agent/pool/finish.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/proc.h"
#include "common/base/fd.h"
#include "common/cli/log.h"

static _Noreturn void become(const char *command, const char *node_name, const char *reason)
{
    sigset_t none;
    sigemptyset(&none);
    (void)setsid(); /* protects the command from signals of this process's terminal */
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (setenv("TFE_FINISH", reason, 1) == 0 && setenv("TFE_NODE_NAME", node_name, 1) == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    }
    _exit(127);
}

void finish_run(const char *command, const char *node_name, const char *reason)
{
    int status = 0;
    pid_t pid = proc_fork_blocked();
    if (pid == 0) {
        become(command, node_name, reason);
    }
    int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    if (pid < 0 || fd < 0) {
        log_error("on_finish", LOG_S("reason", "cannot start a process for the command"));
    } else if (poll(&ended, 1, FINISH_WITHIN_S * 1000) != 1) {
        log_error("on_finish", LOG_S("reason", "the command did not end in time and was killed"));
        (void)kill(-pid, SIGKILL);
    }
    fd_close(&fd);
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
        log_info("on_finish", LOG_S("of", reason),
                 LOG_I("status", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)));
    }
}
