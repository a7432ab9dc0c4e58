/* tests/unit/agent/test_trainers.c: from the core's actions to events about trainers, with a
 * real guard, processes and ports. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/core/agent.h"
#include "agent/guard/guard.h"
#include "agent/os/ports.h"
#include "agent/os/proc.h"
#include "agent/output/output_ring.h"
#include "agent/output/output_show.h"
#include "agent/trainer/command.h"
#include "agent/trainer/standby.h"
#include "agent/trainer/trainers.h"
#include "agent/trainer/watchdog.h"
#include "common/base/clock.h"
#include "tests/unit/agent/agent_fixture.h"

static struct {
    struct rig rig; /* its event loop */
    struct output_ring ring;
    struct trainers *trainers;
    struct ports *ports;
    const uint16_t *numbers; /* its ports */
    struct watch_settings watch;
    char words[4][256];
    char *argv[5];
    int n[AGENT_SIGNAL + 1]; /* number of events by type */
    struct msg_exited end;   /* the last; its tail is gone */
} now;

/* Listens at this port, and so may other processes. Returns the descriptor. */
static int listen_at(uint16_t port)
{
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){1}, sizeof(int)), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/* As a trainer this program is started with `-c PORT`; it listens there unless the port is 0. */
__attribute__((constructor)) static void become_trainer(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "-c") == 0) {
        const int port = atoi(argv[2]);
        if (port != 0) {
            (void)listen_at((uint16_t)port);
        }
        (void)pause();
        _exit(1);
    }
}

static void on_event(void *ctx, const struct agent_event *event)
{
    (void)ctx;
    now.n[event->type]++;
    if (event->type == AGENT_TRAINER_EXITED || event->type == AGENT_SPAWN_FAILED) {
        now.end = event->end;
    }
}

static void on_settled(void *ctx)
{
    (void)ctx;
}

/* Starts one trainer that runs this script in a shell. */
static void begin(const char *program, const char *script)
{
    static const struct standby_settings no_standby = {.is_off = true};
    static const struct tfe_id job = {"job"};
    static struct command command;
    static struct output_show show;
    struct guard_process guard;
    struct tfe_reason reason;
    (void)snprintf(now.words[0], sizeof now.words[0], "%s", program);
    (void)snprintf(now.words[1], sizeof now.words[1], "-c");
    (void)snprintf(now.words[2], sizeof now.words[2], "%s", script);
    for (size_t i = 0; i < 3; i++) {
        now.argv[i] = now.words[i];
    }
    command = (struct command){.argv = now.argv};
    output_show_init(&show);
    assert_int_equal(guard_fork(&guard, NULL, &reason), 0);
    assert_int_equal(ports_new(1, 0, &now.ports, &reason), 0);
    assert_int_equal(ports_hold(now.ports, 1, false, &now.numbers, &reason), 0);
    now.rig.base = event_base_new();
    output_ring_init(&now.ring, OUTPUT_RING_BYTES);
    now.trainers =
        trainers_new(&(struct trainers_options){.base = now.rig.base,
                                                .guard = &guard,
                                                .command = &command,
                                                .ports = now.ports,
                                                .job = &job,
                                                .environment = {.job = job.text, .node_id = "node"},
                                                .nproc = 1,
                                                .show = &show,
                                                .ring = &now.ring,
                                                .standby = &no_standby,
                                                .watch = &now.watch,
                                                .settled = on_settled,
                                                .on_event = on_event});
}

static void start(uint64_t epoch)
{
    const struct msg_row row = {.host = "127.0.0.1", .port = now.numbers[0]};
    const struct agent_place place = {
        .epoch = epoch, .run = 1, .n = 1, .rows = &row, .n_rows = 1, .own = row};
    trainers_spawn(now.trainers, &place, 0);
}

static void sweep(void)
{
    int before = now.n[AGENT_SWEPT];
    trainers_sweep(now.trainers, 0, 0);
    RIG_UNTIL(&now.rig, now.n[AGENT_SWEPT] > before);
}

static int setup(void **state)
{
    (void)state;
    memset(&now, 0, sizeof now);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    trainers_free(now.trainers);
    output_ring_done(&now.ring);
    ports_free(now.ports);
    event_base_free(now.rig.base);
    return 0;
}

#define FIXTURE setup, teardown

TEST_IN(trainers, next_trainer_does_not_inherit_lateness)
{
    now.watch.progress_timeout_ms = 100;
    begin("/bin/sh", "exec sleep $((TFE_EPOCH == 1 ? 1000 : 0))");
    start(1);
    RIG_UNTIL(&now.rig, now.n[AGENT_TRAINER_EXITED] == 1);
    assert_int_equal(now.end.end, ENDING_PROGRESS_TIMEOUT);
    sweep();
    now.watch.progress_timeout_ms = 0;
    start(2);
    RIG_UNTIL(&now.rig, now.n[AGENT_TRAINER_EXITED] == 2);
    assert_int_equal(now.end.end, ENDING_EXITED);
}

static void set_listening(bool is_on)
{
    (void)snprintf(now.words[2], sizeof now.words[2], "%u", is_on ? now.numbers[0] : 0u);
}

TEST_IN(trainers, listening_of_each_trainer_is_reported_and_closes_the_reserved_port)
{
    char program[256] = "";
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    begin(program, "");
    set_listening(true);
    start(1);
    const int before = rig_count_descriptors(getpid());
    RIG_UNTIL(&now.rig, now.n[AGENT_LISTENING] == 1);
    /* Neither the reserved port nor the check keeps a descriptor open. */
    assert_int_equal(rig_count_descriptors(getpid()), before - 1);
    sweep();
    set_listening(false);
    start(2);
    int64_t end = rig_ms() + 60;
    while (rig_ms() < end) { /* the first check is after 25 ms */
        rig_turn(&now.rig);
    }
    assert_int_equal(now.n[AGENT_LISTENING], 1);
}

/* Returns the number of log lines in this file with the event. */
static int count_logged(FILE *log)
{
    char line[512];
    int n = 0;
    rewind(log);
    while (fgets(line, sizeof line, log)) {
        n += strstr(line, "event=port_still_accepts ") != NULL;
    }
    return n;
}

TEST_IN(trainers, accepting_port_delays_the_sweep_and_is_logged_once_per_epoch)
{
    begin("/bin/sh", "exec sleep 1000");
    const int stderr_before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    FILE *log = tmpfile();
    assert_int_equal(dup2(fileno(log), STDERR_FILENO), STDERR_FILENO);
    for (int i = 1; i <= 2; i++) {
        start((uint64_t)(2 * i - 1)); /* these have the same ports */
        const int fd = listen_at(now.numbers[0]);
        trainers_sweep(now.trainers, 0, 0);
        RIG_UNTIL(&now.rig, count_logged(log) == i);
        const int64_t end = rig_ms() + 250; /* two looks more */
        while (rig_ms() < end) {
            rig_turn(&now.rig);
        }
        assert_int_equal(now.n[AGENT_SWEPT], i - 1);
        close(fd);
        RIG_UNTIL(&now.rig, now.n[AGENT_SWEPT] == i);
    }
    assert_int_equal(count_logged(log), 2);
    assert_int_equal(dup2(stderr_before, STDERR_FILENO), STDERR_FILENO);
    close(stderr_before);
    (void)fclose(log);
}

TEST_IN(trainers, new_guard_gets_the_fence_and_the_sweep_again)
{
    begin("/bin/sh", "exec sleep 1000");
    start(1);
    RIG_UNTIL(&now.rig, now.n[AGENT_SPAWNED]);
    pid_t guard = (pid_t)trainers_guard_pid(now.trainers);
    kill(guard, SIGSTOP);
    RIG_UNTIL(&now.rig, rig_has_state(guard, 'T'));
    trainers_fence(now.trainers, tfe_mono_add(clock_mono(), 100));
    trainers_sweep(now.trainers, 0, 0);
    kill(guard, SIGKILL);
    RIG_UNTIL(&now.rig, now.n[AGENT_GUARD]);
    assert_int_equal(now.n[AGENT_SWEPT], 0);
    sweep();
    RIG_UNTIL(&now.rig, now.n[AGENT_FENCED]);
}

TEST_IN(trainers, grace_ends_with_the_last_trainer)
{
    begin("/bin/sh", "trap 'exit 3' TERM; sleep 1000 & wait");
    start(1);
    RIG_UNTIL(&now.rig, now.n[AGENT_SPAWNED]);
    trainers_sweep(now.trainers, 3600000, 1);
    RIG_UNTIL(&now.rig, now.n[AGENT_SWEPT]);
    assert_int_equal(now.n[AGENT_TRAINER_EXITED], 1);
}

TEST_IN(trainers, sweep_without_grace_ends_an_earlier_grace)
{
    begin("/bin/sh", "exec sleep 1000");
    start(1);
    RIG_UNTIL(&now.rig, now.n[AGENT_SPAWNED]);
    trainers_sweep(now.trainers, 3600000, 0);
    sweep();
    assert_int_equal(now.n[AGENT_TRAINER_EXITED], 1);
}

TEST_IN(trainers, missing_command_gives_127)
{
    begin("/no/such/command", "");
    start(1);
    RIG_UNTIL(&now.rig, now.n[AGENT_SPAWN_FAILED]);
    assert_int_equal(now.end.code, 127);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the agent does */
    return stories_run(NULL, NULL);
}
