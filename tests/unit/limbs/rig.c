/* tests/unit/limbs/rig.c: see rig.h. */
#include "tests/unit/limbs/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

int64_t rig_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void note(struct rig *rig, char letter)
{
    if (rig->n_order < sizeof rig->order - 1) {
        rig->order[rig->n_order++] = letter;
    }
}

static void on_spawned(void *ctx, uint32_t slot, pid_t pid)
{
    struct rig *rig = ctx;
    rig->slots[slot].spawned++;
    rig->slots[slot].pid = pid;
    note(rig, 'S');
}

static void on_spawn_failed(void *ctx, uint32_t slot, int error)
{
    struct rig *rig = ctx;
    rig->slots[slot].failed++;
    rig->slots[slot].error = error;
    note(rig, 'F');
}

static void on_exited(void *ctx, uint32_t slot, int wait_status)
{
    struct rig *rig = ctx;
    rig->slots[slot].exited++;
    rig->slots[slot].status = wait_status;
    note(rig, 'E');
}

static void on_swept(void *ctx, pid_t stuck_pid)
{
    struct rig *rig = ctx;
    rig->swept += stuck_pid == 0;
    rig->stuck_told += stuck_pid != 0;
    rig->stuck = stuck_pid;
    note(rig, stuck_pid ? 'K' : 'W');
}

static void on_fenced(void *ctx)
{
    struct rig *rig = ctx;
    rig->fenced++;
    note(rig, 'X');
}

static void on_warm(void *ctx, uint32_t slot)
{
    struct rig *rig = ctx;
    rig->slots[slot].warm++;
}

static void on_cold(void *ctx, uint32_t slot, const char *why)
{
    struct rig *rig = ctx;
    rig->slots[slot].cold++;
    snprintf(rig->slots[slot].why, sizeof rig->slots[slot].why, "%s", why);
}

static void on_lost(void *ctx)
{
    struct rig *rig = ctx;
    rig->lost++;
    note(rig, 'L');
}

static const struct guard_ops ops = {
    .spawned = on_spawned,
    .spawn_failed = on_spawn_failed,
    .exited = on_exited,
    .swept = on_swept,
    .fenced = on_fenced,
    .warm = on_warm,
    .cold = on_cold,
    .lost = on_lost,
};

void rig_init(struct rig *rig)
{
    struct guard_process process;
    struct tfe_why why;
    memset(rig, 0, sizeof *rig);
    assert_int_equal(guard_fork(&process, &why), 0);
    rig->guard = process.pid;
    rig->pair = process.fd;
    rig->base = event_base_new();
    assert_non_null(rig->base);
    assert_int_equal(guard_link_new(rig->base, &process, &ops, rig, &rig->link), 0);
    assert_int_equal(guard_link_pid(rig->link), process.pid);
    assert_int_equal(pipe2(rig->out, O_CLOEXEC), 0);
}

void rig_done(struct rig *rig)
{
    guard_link_free(rig->link);
    if (!rig->lost) {
        int status = -1;
        assert_int_equal(waitpid(rig->guard, &status, 0), rig->guard);
        assert_int_equal(status, 0);
    }
    close(rig->out[0]);
    close(rig->out[1]);
    event_base_free(rig->base);
}

void rig_turn(struct rig *rig)
{
    struct timeval tick = {.tv_usec = 2000};
    event_base_loopexit(rig->base, &tick);
    event_base_loop(rig->base, EVLOOP_ONCE);
}

int rig_run(struct rig *rig, uint32_t slot, const char *const *argv)
{
    struct spawn_spec spec = {.argv = argv, .envp = (const char *const *)environ};
    return guard_link_spawn(rig->link, slot, &spec, rig->out[1], STDERR_FILENO);
}

void rig_line(struct rig *rig, char *ret, size_t cap)
{
    size_t n = 0;
    int64_t give_up = rig_ms() + RIG_PATIENCE_MS;
    for (;;) {
        struct pollfd ready = {.fd = rig->out[0], .events = POLLIN};
        char c;
        rig_turn(rig);
        while (poll(&ready, 1, 0) == 1) {
            assert_int_equal(read(rig->out[0], &c, 1), 1);
            if (c == '\n') {
                ret[n] = '\0';
                return;
            }
            assert_true(n + 1 < cap);
            ret[n++] = c;
        }
        if (rig_ms() > give_up) {
            fail_msg("no line came");
        }
    }
}

pid_t rig_pid(struct rig *rig)
{
    char line[64];
    rig_line(rig, line, sizeof line);
    int pid = atoi(line);
    assert_true(pid > 1);
    return pid;
}

static char state_of(pid_t pid)
{
    char path[64];
    char text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    const char *end = n > 0 ? strrchr(text, ')') : NULL;
    return end ? end[2] : 0;
}

bool rig_is_gone(pid_t pid)
{
    char state = state_of(pid);
    return state == 0 || state == 'Z' || state == 'X';
}

bool rig_has_state(pid_t pid, char state)
{
    return state_of(pid) == state;
}
