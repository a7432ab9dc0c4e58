/* agent/os/proc.h: what /proc says about processes and sockets. Used on both sides of the fork.
 */
#ifndef TFE_AGENT_OS_PROC_H
#define TFE_AGENT_OS_PROC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/base/reason.h"

/* Makes this process adopt what its descendants leave behind. TFE_ESYS with why. */
int proc_become_subreaper(struct tfe_reason *reason) TFE_MUST_CHECK;

/* As fork(), but the child begins with all signals blocked: no handler of this process's may run
 * there, it would write into this one's descriptors, as if the signal had been sent here. */
pid_t proc_fork_blocked(void);

/* -1: there is no such process any more, or it cannot be read. */
pid_t proc_parent(pid_t pid);

/* Calls each for the numbers in /proc/PID/what ("task", "fd") until it returns false. Allocates
 * nothing. TFE_ESYS with errno: the folder could not be read. */
int proc_each_of(pid_t pid, const char *what, bool (*each)(void *ctx, int number), void *ctx);

/* Whether a living descendant is meant. Called once for each of them. */
typedef bool proc_pick_fn(void *ctx, pid_t pid, pid_t session);

/* Sends signo to every process below root that pick wants (NULL: all), however deep, zombies aside,
 * and SIGCONT after it unless signo is SIGKILL or stops, so that a stopped process takes it. signo
 * 0 only asks pick. *ret_alive: how many were picked. *ret_stuck is one that could not be signalled
 * (EPERM), 0 if none. One pass: a process may fork between the look and the signal.
 * TFE_ESYS: /proc could not be read (errno). */
int proc_signal_descendants(pid_t root, int signo, proc_pick_fn *pick, void *ctx, size_t *ret_alive,
                            pid_t *ret_stuck) TFE_MUST_CHECK;

/* For an agent that lost its guard: kills whatever is below self (the caller) and reaps it, for at
 * most 5 s. False: something could not be killed in that time. Every child is reaped: do not
 * fork a new guard before. */
bool proc_kill_all_descendants_and_reap(pid_t self);

/* Whether root or a descendant of it listens on TCP port (IPv4 or IPv6): by the inode of a LISTEN
 * socket in root's network namespace that one of them holds open. *diag is a socket to the kernel
 * that the caller keeps from question to question, because one is asked every second for as long as
 * a trainer does not listen: -1 at first, in the end the caller's to close. */
bool proc_descendant_listens(pid_t root, uint16_t port, int *diag);

/* Whether any process of this network namespace listens on TCP port (IPv4 or IPv6). */
bool proc_port_listens(uint16_t port);

/* Which TCP connections are meant; what is 0 may be anything. */
struct proc_connections {
    uint16_t local_port;
    uint16_t remote_port;
    struct in_addr remote; /* of IPv4, also where a socket of IPv6 carries it */
    bool is_to_self;       /* both ends have one address, which then is this machine's */
};

/* Called once for each; remote is INADDR_ANY where it is no address of IPv4. */
typedef void proc_connection_fn(void *ctx, struct in_addr remote);

/* How many are established in this network namespace. each may be NULL. */
size_t proc_connections(const struct proc_connections *which, proc_connection_fn *each, void *ctx);

/* … by root or a descendant of it, who hold them open; of more than 64 in all some are left out. */
size_t proc_connections_of(pid_t root, const struct proc_connections *which);

#endif
