/* tests/unit/script_channel/stage.h: the agent's end of the script channel, and sockets in
 * the role of scripts. */
#ifndef TFE_TESTS_UNIT_SCRIPT_CHANNEL_STAGE_H
#define TFE_TESTS_UNIT_SCRIPT_CHANNEL_STAGE_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "agent/script_channel/script_message.h"
#include "agent/script_channel/scripts.h"
#include "agent/script_channel/state_memory.h"
#include "common/base/clock.h"
#include "common/cli/log.h"
#include "tests/unit/folder.h"

#define NPROC 2
#define EPOCH 5
#define RANK 4 /* of this node's first trainer */

static struct {
    struct event_base *base;
    struct scripts *scripts;
    char folder[FOLDER_BYTES];
    int told;
    struct msg_progress news[NPROC];
    bool has_trained[NPROC];
    int fds[4]; /* of scripts, until the end of the test */
    int n_fds;
} stage;

static inline void on_progress(void *ctx, uint32_t local, bool has_trained,
                               const struct msg_progress *told)
{
    assert_in_range(local, 0, NPROC - 1);
    assert_int_equal(told->epoch, EPOCH);
    stage.told++;
    stage.news[local] = *told;
    stage.has_trained[local] = has_trained;
}

static inline int setup(void **state)
{
    memset(&stage, 0, sizeof stage);
    stage.base = event_base_new();
    folder_make(stage.folder);
    struct scripts_options options = {.base = stage.base,
                                      .nproc = NPROC,
                                      .private_base = stage.folder,
                                      .checkpoint_dir = folder_path(stage.folder, "model"),
                                      .state_memory = STATE_MEMORY_AUTO,
                                      .on_progress = on_progress};
    stage.scripts = scripts_new(&options);
    scripts_begin(stage.scripts, EPOCH, RANK);
    return 0;
}

static inline int teardown(void **state)
{
    while (stage.n_fds > 0) {
        (void)close(stage.fds[--stage.n_fds]); /* the test may have closed it before */
    }
    scripts_free(stage.scripts);
    event_base_free(stage.base);
    /* Checks that no file is left. */
    rmdir(folder_path(stage.folder, "model"));
    assert_int_equal(rmdir(stage.folder), 0);
    return 0;
}

/* Stores the name of a script's socket in the agent's directory. */
static inline struct sockaddr_un address_of(int pid)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *agent = scripts_socket(stage.scripts);
    snprintf(at.sun_path, sizeof(at.sun_path), "%.*s/script-%d", (int)(strrchr(agent, '/') - agent),
             agent, pid);
    return at;
}

/* Returns a script's socket, bound as script-PID and connected to the agent's. */
static inline int script_open(int pid)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un own = address_of(pid);
    struct sockaddr_un agent = {.sun_family = AF_UNIX};
    snprintf(agent.sun_path, sizeof(agent.sun_path), "%s", scripts_socket(stage.scripts));
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&agent, sizeof(agent)), 0);
    assert_in_range(stage.n_fds, 0, 3);
    stage.fds[stage.n_fds++] = fd;
    return fd;
}

static inline void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
}

static inline void say_hello(int fd, int rank, int pid, bool listens)
{
    char text[128];
    snprintf(text, sizeof(text),
             "{\"type\":\"hello\",\"epoch\":%d,\"rank\":%d,\"pid\":%d,\"listens\":%s}", EPOCH, rank,
             pid, listens ? "true" : "false");
    say(fd, text);
}

/* Sends a step, and waits until it and all earlier messages have been handled. */
static inline void say_step(int fd, int step)
{
    char text[96];
    snprintf(text, sizeof(text), "{\"type\":\"progress\",\"epoch\":5,\"rank\":4,\"step\":%d}",
             step);
    say(fd, text);
    TURN_UNTIL(stage.base, stage.news[0].has_step && stage.news[0].step == (uint64_t)step);
}

/* Returns the number of scripts that listen, without their handlers. */
static inline uint32_t stop(struct scripts *scripts, uint64_t epoch, uint32_t grace_ms)
{
    uint64_t handlers;
    return scripts_stop(scripts, epoch, grace_ms, false, &handlers);
}

/* Returns the last message sent to the script, or "". */
static inline const char *heard(int fd)
{
    static char text[512];
    ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* Requests memory. Returns the descriptor received, or -1; text receives the reply. */
static inline int ask_memory(int fd, uint64_t bytes, char heard_text[512])
{
    char text[96];
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = heard_text, .iov_len = 511};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    snprintf(text, sizeof(text), "{\"type\":\"memory\",\"epoch\":%d,\"rank\":%d,\"bytes\":%llu}",
             EPOCH, RANK, (unsigned long long)bytes);
    say(fd, text);
    ssize_t n = -1;
    TURN_UNTIL(stage.base, (n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) > 0);
    heard_text[n] = '\0';
    int file = -1;
    if (CMSG_FIRSTHDR(&message)) {
        memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(file));
    }
    return file;
}

/* Opens the socket of the next trainer in the slot, as in a new epoch. */
static inline int next_trainer(int pid)
{
    int told = stage.told;
    scripts_end(stage.scripts);
    scripts_begin(stage.scripts, EPOCH, RANK);
    int fd = script_open(pid);
    say_hello(fd, RANK, pid, true);
    TURN_UNTIL(stage.base, stage.told > told);
    return fd;
}

static inline void see_save(const char *name)
{
    char dir[128];
    char text[128];
    snprintf(dir, sizeof(dir), "%s", folder_path(stage.folder, "model"));
    mkdir(dir, 0755);
    snprintf(text, sizeof(text), "model_checkpoint_path: \"%s\"\n", name);
    folder_write(folder_path(dir, "checkpoint.tmp"), text);
    assert_int_equal(rename(folder_path(dir, "checkpoint.tmp"), folder_path(dir, "checkpoint")), 0);
}

#define FIXTURE setup, teardown

#endif
