/* agent/guard/guard_proof.c: implementation of guard_proof.h. */
#include "agent/guard/guard_proof.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fd.h"

/* The server lets at most 3 nodes probe at a time (server/core/probe.c); other
 * clients may retry. */
#define BACKLOG 16
/* Pause after each connection, so that a flood of connections costs at most 1000
 * wake-ups per second. */
#define PAUSE_NS 1000000
/* Longest poll(2): its clock stops while the machine is suspended, unlike the fence's. */
#define POLL_MAX_MS 10000

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
    } addresses[] = {{&any6, sizeof any6, AF_INET6}, {&any4, sizeof any4, AF_INET}};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        int fd = socket(addresses[i].family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_in6 at = {0};
        socklen_t n = sizeof at;
        if (fd >= 0 && addresses[i].family == AF_INET6) {
            (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){0}, sizeof(int));
        }
        if (fd >= 0 && bind(fd, addresses[i].address, addresses[i].n) == 0 &&
            getsockname(fd, (struct sockaddr *)&at, &n) == 0) {
            *ret_port = ntohs(at.sin6_port); /* sin_port has the same offset in sockaddr_in */
            return fd;
        }
        fd_close(&fd);
    }
    return -1;
}

void guard_proof_make(struct guard_proof *proof, const char *job)
{
    char certificate[PROOF_CHARS + 1];
    proof_make(certificate);
    (void)proof_hash_of(certificate, &proof->hash);
    termination_file_plan(&proof->file, &proof->hash, certificate);
    (void)snprintf(proof->job.text, sizeof proof->job.text, "%s", job);
    sodium_memzero(certificate, sizeof certificate);
    proof->port = 0;
    proof->fd = bind_port(&proof->port);
}

void guard_proof_erase(struct guard_proof *proof)
{
    fd_close(&proof->fd);
    sodium_memzero(proof, sizeof *proof);
}

void guard_proof_reveal(const struct guard_proof *proof, int fd)
{
    (void)listen(fd, BACKLOG);
    termination_file_write(&proof->file, proof->job.text);
}

/* Releases the agent's terminal, pipes and file systems, and lets SIGTERM end the process. */
static void detach(void)
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

void guard_proof_serve(const struct guard_proof *proof, int fd, int64_t until_ms)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    detach();
    for (int64_t left; (left = until_ms - clock_mono().ms) > 0;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, (int)(left < POLL_MAX_MS ? left : POLL_MAX_MS)) <= 0) {
            continue;
        }
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (peer >= 0) {
            /* The line fits into an empty send buffer, so one send without waiting is enough. */
            (void)!send(peer, proof->file.line, strlen(proof->file.line), MSG_NOSIGNAL);
            close(peer);
        }
        nanosleep(&pause, NULL);
    }
    termination_file_remove(&proof->file);
}
