/* agent/guard/guard_death.c: the death certificate of an agent, in the hands of its guard. */
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

/* Three ask at a time (server/core/probe.c); who comes beyond them may come again. */
#define BACKLOG 16
/* After each connection: no flood of them costs more than so many turns a second. */
#define PAUSE_NS 1000000
/* poll(2)'s clock stands still while the machine is suspended, the fence does not. */
#define LOOK_MS 10000

/* On every address of the machine; -1: no port is to be had. It belongs to nobody else: not even a
 * process of this user can bind it, too. */
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
            *ret_port = ntohs(at.sin6_port); /* where sockaddr_in has its own */
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

/* Nothing of the agent's terminal, pipes or file systems may wait for this process. */
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
    signal(SIGTERM, SIG_DFL); /* one that came while it was still needed counts, too */
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
            /* The line fits every send buffer; nothing is read, and nobody is waited for. */
            (void)!send(peer, death->file.line, strlen(death->file.line), MSG_NOSIGNAL);
            close(peer);
        }
        nanosleep(&pause, NULL);
    }
    termination_file_remove(&death->file);
}
