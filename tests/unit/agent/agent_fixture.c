/* tests/unit/agent/agent_fixture.c: implementation of agent_fixture.h. */
#include "tests/unit/agent/agent_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/proc.h"

extern char **environ;

int64_t rig_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void on_event(void *ctx, const struct guard_event *event)
{
    static const char letters[] = {
        [GUARD_SPAWNED] = 'S', [GUARD_SPAWN_FAILED] = 'F', [GUARD_EXITED] = 'E',
        [GUARD_SWEPT] = 'W',   [GUARD_FENCED] = 'X',       [GUARD_LOST] = 'L'};
    struct rig *rig = ctx;
    struct rig_slot *slot = &rig->slots[event->slot % GUARD_SLOTS];
    char letter = letters[event->type];
    switch (event->type) {
    case GUARD_SPAWNED:
        slot->spawned++;
        slot->pid = event->pid;
        break;
    case GUARD_SPAWN_FAILED:
        slot->failed++;
        slot->error = event->value;
        break;
    case GUARD_EXITED:
        slot->exited++;
        slot->status = event->value;
        break;
    case GUARD_SWEPT:
        rig->swept += event->pid == 0;
        rig->stuck_told += event->pid != 0;
        rig->stuck = event->pid;
        letter = event->pid ? 'K' : 'W';
        break;
    case GUARD_FENCED:
        rig->fenced++;
        break;
    case GUARD_WARM:
        slot->warm++;
        break;
    case GUARD_COLD:
        slot->cold++;
        snprintf(slot->reason, sizeof slot->reason, "%s", event->reason);
        break;
    case GUARD_LOST:
        rig->lost++;
        break;
    default:
        fail_msg("the guard says %u", event->type);
    }
    if (letter && rig->n_order < sizeof rig->order - 1) {
        rig->order[rig->n_order++] = letter;
    }
}

void rig_init(struct rig *rig)
{
    struct guard_process process;
    struct tfe_reason reason;
    memset(rig, 0, sizeof *rig);
    assert_int_equal(guard_fork(&process, NULL, &reason), 0);
    rig->guard = process.pid;
    rig->pair = process.fd;
    rig->base = event_base_new();
    assert_non_null(rig->base);
    rig->link = guard_link_new(rig->base, &process, on_event, rig);
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

int rig_setup(void **state)
{
    static struct rig rig;
    rig_init(&rig);
    *state = &rig;
    return 0;
}

int rig_teardown(void **state)
{
    rig_done(*state);
    return 0;
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

static bool count_one(void *ctx, int number)
{
    (void)number;
    (*(int *)ctx)++;
    return true;
}

int rig_count_descriptors(pid_t pid)
{
    int n = 0;
    assert_int_equal(proc_each_of(pid, "fd", count_one, &n), 0);
    return n;
}

void rig_start_standby(struct rig *rig, const char *script, bool background)
{
    const char *const argv[] = {"/bin/bash", "-c", script, NULL};
    struct spawn_spec spec = {.argv = argv, .envp = (const char *const *)environ};
    assert_int_equal(guard_link_spawn_standby(rig->link, GUARD_STANDBY_SLOT, &spec, background), 0);
}

bool rig_root_helper(char folder[FOLDER_BYTES], char *ret, size_t cap)
{
    char command[512];
    struct statvfs fs;
    folder_make(folder);
    (void)snprintf(ret, cap, "%s/helper", folder);
    (void)snprintf(command, sizeof command, "cp /proc/%d/exe '%s' && chmod 4755 '%s'",
                   (int)getpid(), ret, ret);
    return geteuid() == 0 && chmod(folder, 0755) == 0 && system(command) == 0 &&
           statvfs(folder, &fs) == 0 && !(fs.f_flag & ST_NOSUID);
}

int rig_become_root(void)
{
    if (setresuid(0, 0, 0) != 0) {
        return 1;
    }
    printf("%d\n", (int)getpid());
    fflush(stdout);
    alarm(60);
    pause();
    return 0;
}
