/* server/keeper.h: a small process that the server leaves behind before it enters its sandbox, in
 * which it may run no program. It starts programs for the server, as the server's user, and ends
 * them when the server is gone, whatever took that. */
#ifndef TFE_SERVER_KEEPER_H
#define TFE_SERVER_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/net/why.h"

/* Of the process that keeps. */
struct keeper {
    int server;  /* a socket, closed by the server's end */
    int signals; /* signalfd: SIGCHLD */
};

/* Starts one, in which keep(k, ctx) runs until it returns; it is called `name` (15 bytes at most).
 * type: of the sockets between, SOCK_STREAM or SOCK_SEQPACKET. *ret is the server's. Before there
 * is a second thread, a secret in memory, or a sandbox. TFE_ESYS. */
int keeper_start(const char *name, int type, void (*keep)(const struct keeper *k, void *ctx),
                 void *ctx, int *ret, struct tfe_why *why) TFE_MUST_CHECK;

/* Tells the keeper that the server ends, and waits for its end, until then at most. fd -1: there is
 * none; it becomes -1. */
void keeper_bid(int fd);
void keeper_await(int *fd, struct tfe_mono until);

/* --- in that process --- */

/* Starts a program in a process group of its own: run(ctx) replaces the process by it. `end` is
 * sent to it when the keeper dies. -1: there was none to be had. */
pid_t keeper_spawn(int end, void (*run)(void *ctx), void *ctx);
/* Waits for the server's end (false), or that of the child (its status in *ret_status), or so long
 * (-1 in *ret_status). child 0: none; ms -1: for ever. */
bool keeper_waits(const struct keeper *k, pid_t child, int64_t ms, int *ret_status);
/* Ends the child and its group: by SIGTERM, and by SIGKILL a second later. */
void keeper_end(pid_t child);

#endif
