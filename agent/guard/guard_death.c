/* agent/guard/guard_death.c: implementation of guard_death.h. */
#include "agent/guard/guard_death.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/heap.h"

/* The server lets at most 3 nodes probe at a time (server/core/probe.c); other
 * clients may retry. */
#define BACKLOG 16
/* Pause after each connection, so that a flood of connections costs at most 1000
 * wake-ups per second. */
#define PAUSE_NS 1000000
/* Longest poll(2): its clock stops while the machine is suspended, unlike the fence's. */
#define LOOK_MS 10000

/* Binds a free port on all addresses without address reuse, so that no other process can bind
 * it. Returns -1 if no port is available. */
static int bind_port(uint16_t *ret_port)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
    struct sockaddr_in any4 = {.sin_family = AF_INET};
    const struct {
        const void *address;
        socklen_t n;
        int family;
    } ways[] = {{&any6, sizeof any6, AF_INET6}, {&any4, sizeof any4, AF_INET}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int fd = socket(ways[i].family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_in6 at = {0};
        socklen_t n = sizeof at;
        if (fd >= 0 && ways[i].family == AF_INET6) {
            (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
        }
        if (fd >= 0 && bind(fd, ways[i].address, ways[i].n) == 0 &&
            getsockname(fd, (struct sockaddr *)&at, &n) == 0) {
            *ret_port = ntohs(at.sin6_port); /* sin_port has the same offset in sockaddr_in */
            return fd;
        }
        fd_drop(&fd);
    }
    return -1;
}

void guard_death_make(struct guard_death *death, const char *job)
{
    char certificate[PROOF_CHARS + 1];
    proof_make(certificate);
    (void)proof_hash_of(certificate, &death->hash);
    termination_file_plan(&death->file, &death->hash, certificate);
    death->job =
        mmap(NULL, sizeof *death->job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    part_must(death->job != MAP_FAILED);
    (void)snprintf(death->job->text, sizeof death->job->text, "%s", job);
    sodium_memzero(certificate, sizeof certificate);
    death->port = 0;
    death->fd = bind_port(&death->port);
}

void guard_death_forget(struct guard_death *death)
{
    fd_drop(&death->fd);
    sodium_memzero(death, sizeof *death);
}

void guard_death_tell(const struct guard_death *death, int fd)
{
    (void)listen(fd, BACKLOG);
    termination_file_write(&death->file, death->job->text);
}

/* Releases the agent's terminal, pipes and file systems, and lets SIGTERM end the process. */
static void let_go(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, STDERR_FILENO);
        close(null);
    }
    (void)!chdir("/");
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    /* a SIGTERM that arrived while it was blocked also ends the process */
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &term, NULL);
}

void guard_death_serve(const struct guard_death *death, int fd, int64_t until_ms)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    let_go();
    for (int64_t left; (left = until_ms - clock_mono().ms) > 0;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, (int)(left < LOOK_MS ? left : LOOK_MS)) <= 0) {
            continue;
        }
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (peer >= 0) {
            /* The line fits into an empty send buffer, so one send without waiting is enough. */
            (void)!send(peer, death->file.line, strlen(death->file.line), MSG_NOSIGNAL);
            close(peer);
        }
        nanosleep(&pause, NULL);
    }
    termination_file_remove(&death->file);
}
