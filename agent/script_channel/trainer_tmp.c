/* agent/script_channel/trainer_tmp.c: implementation of trainer_tmp.h. */
#include "agent/script_channel/trainer_tmp.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/os/private_dir.h"
#include "agent/os/remove_tree.h"
#include "agent/os/trainer_user.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"

/* Number of directory entries removed per event, which takes 1 to 2 ms, and the pause between two
 * events, which limits the CPU time for entries that cannot be removed. */
#define ENTRIES_PER_EVENT 100
#define PAUSE_MS 5
#define GONE_NAME_MAX (sizeof PRIVATE_DIR_GONE + 10)

struct trainer_tmp {
    const struct private_dir *dir;
    /* Directories still to be removed: numbers gone_first to gone_next - 1. */
    unsigned gone_first, gone_next;
    struct event *timer;
};

static void gone_name(char ret[GONE_NAME_MAX], unsigned number)
{
    snprintf(ret, GONE_NAME_MAX, PRIVATE_DIR_GONE "%u", number);
}

/* Removes a few entries per event, so that a large directory does not block the loop. What
 * cannot be removed stays until the agent ends. */
static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct trainer_tmp *t = ctx;
    size_t budget = ENTRIES_PER_EVENT;
    while (t->gone_first < t->gone_next && budget > 0) {
        char name[GONE_NAME_MAX];
        gone_name(name, t->gone_first);
        if (entries_remove(t->dir->fd, name, &budget) || budget > 0) {
            t->gone_first++;
        }
    }
    if (t->gone_first < t->gone_next) {
        timer_after(t->timer, PAUSE_MS);
    }
}

struct trainer_tmp *trainer_tmp_new(struct event_base *base, const struct private_dir *dir)
{
    struct trainer_tmp *t = must_alloc(sizeof *t);
    *t = (struct trainer_tmp){.dir = dir, .timer = evtimer_new(base, on_timer, t)};
    must_succeed(t->timer);
    return t;
}

void trainer_tmp_free(struct trainer_tmp *t)
{
    event_drop(&t->timer);
    free(t);
}

void trainer_tmp_begin(struct trainer_tmp *t)
{
    if (t->dir->fd < 0 || mkdirat(t->dir->fd, PRIVATE_DIR_TMP, 0700) != 0) {
        return;
    }
    int fd = openat(t->dir->fd, PRIVATE_DIR_TMP, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || trainer_user_give(fd)) {
        log_warn("no_tmp_dir", LOG_S("reason", strerror(errno)));
    }
    fd_close(&fd);
}

void trainer_tmp_end(struct trainer_tmp *t)
{
    char name[GONE_NAME_MAX];
    gone_name(name, t->gone_next);
    if (t->dir->fd >= 0 && renameat(t->dir->fd, PRIVATE_DIR_TMP, t->dir->fd, name) == 0) {
        t->gone_next++;
        timer_after(t->timer, 0);
    }
}
