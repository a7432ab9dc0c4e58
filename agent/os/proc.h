/* agent/os/proc.h: reads processes and sockets from /proc. Used by the agent and the guard. */
#ifndef TFE_AGENT_OS_PROC_H
#define TFE_AGENT_OS_PROC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/text/reason.h"

/* Makes this process the parent of orphaned descendants. Returns TFE_ESYS with reason set. */
int proc_become_subreaper(struct tfe_reason *reason) TFE_MUST_CHECK;

/* Forks a child that starts with all signals blocked. Otherwise a handler of this process could
 * run in the child and write to shared descriptors, as if this process had received the signal. */
pid_t proc_fork_blocked(void);

/* Returns the parent's pid, or -1 if the process does not exist or cannot be read. */
pid_t proc_parent(pid_t pid);

/* Calls each with every number in /proc/PID/what ("task" or "fd") until it returns false.
 * Allocates no memory. Returns TFE_ESYS with errno set if the directory cannot be read. */
int proc_each_of(pid_t pid, const char *what, bool (*each)(void *ctx, int number), void *ctx);

/* Returns true to select a process. Called once for each live descendant. */
typedef bool proc_pick_fn(void *ctx, pid_t pid, pid_t session);

/* Sends signo to every live descendant of root that pick selects (all if NULL), at any depth.
 * Except for SIGKILL and stop signals, SIGCONT follows, so that a stopped process handles the
 * signal. signo 0 only calls pick. *ret_alive is the number of selected processes, *ret_stuck
 * one that could not be signalled (EPERM), or 0. Makes one pass; a process may fork between scan
 * and signal. Returns TFE_ESYS with errno set if /proc cannot be read. */
int proc_signal_descendants(pid_t root, int signo, proc_pick_fn *pick, void *ctx, size_t *ret_alive,
                            pid_t *ret_stuck) TFE_MUST_CHECK;

/* Kills and reaps all descendants of self, the caller, for at most 5 s, after an agent has
 * lost its guard. Every child is reaped, so call it before forking a new guard. Returns false
 * if a process survived. */
bool proc_kill_all_descendants_and_reap(pid_t self);

/* Returns true if root or a descendant listens on a TCP port (IPv4 or IPv6), found by the inode
 * of a LISTEN socket in root's network namespace that one of them holds open. *diag is a netlink
 * socket that the caller keeps between calls, because calls repeat every second until a trainer
 * listens; initialise it to -1 and close it at the end. */
bool proc_descendant_listens(pid_t root, uint16_t port, int *diag);

/* Returns true if any process in this network namespace listens on the TCP port (IPv4 or IPv6). */
bool proc_port_listens(uint16_t port);

/* Filter for TCP connections; 0 matches any value. */
struct proc_connections {
    uint16_t local_port;
    uint16_t remote_port;
    struct in_addr remote; /* IPv4 address; also matches it as an IPv4-mapped IPv6 address */
    /* match only connections whose two ends have the same address, i.e. local ones */
    bool is_to_self;
};

/* Called once for each connection; remote is INADDR_ANY if it is no IPv4 address. */
typedef void proc_connection_fn(void *ctx, struct in_addr remote);

/* Counts the established connections in this network namespace that match. each may be NULL. */
size_t proc_connections(const struct proc_connections *which, proc_connection_fn *each, void *ctx);

/* Counts the matching connections that root or its descendants hold open; considers at
 * most 64 connections. */
size_t proc_connections_of(pid_t root, const struct proc_connections *which);

#endif
