/* agent/script_channel/checkpoints.c: watches a checkpoint directory, or its nearest existing
 * parent, with inotify. */
#include "agent/script_channel/checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/script_channel/checkpoint_name.h"
#include "common/base/assert.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"

/* Maximum number of checkpoints with files but without an entry in the state file. */
#define BEGUN_MAX 8
/* Maximum number of reads of the queue per event; each returns 100 events or more. */
#define READS_MAX 4
/* Bytes read of the state file; its first line names the newest checkpoint. */
#define STATE_BYTES 8192
/* Attempts to set the watch while the directory is created and removed. */
#define WATCH_ATTEMPTS 8

#define WATCH_SELF (IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define WATCH_DIR (WATCH_SELF | IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE)
#define WATCH_ABOVE (WATCH_SELF | IN_CREATE | IN_MOVED_TO)

struct begun {
    char name[CHECKPOINT_NAME_MAX + 1]; /* "" if the slot is free */
    uint64_t save_number; /* number of the newest save request when its first file was created */
};

struct checkpoints {
    struct event *readable;
    int fd; /* inotify descriptor */
    int watch;
    bool is_direct; /* the watch is on the directory itself rather than on a parent */
    checkpoints_fn *fn;
    void *ctx;
    uint64_t save_number;
    struct stat seen; /* attributes of the last state file; each save creates a new file */
    struct begun begun[BEGUN_MAX];
    size_t next_begun;
    char path[PATH_MAX];
    char awaited[NAME_MAX + 1]; /* name that has to appear in the watched parent */
};

/* --- state file --- */

static struct begun *find_begun(struct checkpoints *c, const char *name, size_t n)
{
    for (size_t i = 0; i < BEGUN_MAX; i++) {
        if (strncmp(c->begun[i].name, name, n) == 0 && c->begun[i].name[n] == '\0') {
            return &c->begun[i];
        }
    }
    return NULL;
}

static void note_begun(struct checkpoints *c, const char *file)
{
    size_t n = checkpoint_name_stem(file);
    if (n == 0 || n > CHECKPOINT_NAME_MAX || find_begun(c, file, n)) {
        return;
    }
    struct begun *begun = &c->begun[c->next_begun++ % BEGUN_MAX];
    memcpy(begun->name, file, n);
    begun->name[n] = '\0';
    begun->save_number = c->save_number;
}

/* Reads the state file if it has changed. Returns false if there is nothing new. */
static bool read_state(struct checkpoints *c, char ret_name[CHECKPOINT_NAME_MAX + 1])
{
    char path[PATH_MAX + sizeof("/" CHECKPOINT_STATE_FILE)];
    strcat(strcpy(path, c->path), "/" CHECKPOINT_STATE_FILE);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st = {0};
    if (fd < 0) {
        return false;
    }
    char text[STATE_BYTES];
    ssize_t got = -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        got = read(fd, text, sizeof(text));
    }
    close(fd);
    if (got <= 0 || (st.st_dev == c->seen.st_dev && st.st_ino == c->seen.st_ino &&
                     st.st_size == c->seen.st_size &&
                     memcmp(&st.st_mtim, &c->seen.st_mtim, sizeof st.st_mtim) == 0)) {
        return false;
    }
    if (!checkpoint_state_newest(text, (size_t)got, ret_name)) {
        return false; /* incomplete; another event follows */
    }
    c->seen = st;
    return true;
}

static void read_new_state(struct checkpoints *c)
{
    char name[CHECKPOINT_NAME_MAX + 1];
    if (!read_state(c, name)) {
        return;
    }
    uint64_t step = 0;
    bool has_step = checkpoint_name_step(name, &step);
    struct begun *begun = find_begun(c, name, strlen(name));
    uint64_t answers = begun ? begun->save_number : 0;
    if (begun) {
        begun->name[0] = '\0';
    }
    log_debug("checkpoint_seen", LOG_S("name", name), LOG_U("answers", answers));
    if (c->fn) {
        c->fn(c->ctx, has_step, step, answers);
    }
}

/* --- watch --- */

/* Watches the directory or its nearest existing parent. */
static void watch_nearest(struct checkpoints *c)
{
    c->watch = inotify_add_watch(c->fd, c->path, WATCH_DIR);
    c->is_direct = c->watch >= 0;
    char above[PATH_MAX];
    memcpy(above, c->path, sizeof(above));
    while (c->watch < 0) {
        char *slash = strrchr(above, '/');
        const char *name = slash ? slash + 1 : above;
        size_t n = strnlen(name, NAME_MAX);
        memcpy(c->awaited, name, n);
        c->awaited[n] = '\0';
        const char *parent = slash == above ? "/" : above;
        if (slash) {
            *slash = '\0';
        } else {
            parent = ".";
        }
        c->watch = inotify_add_watch(c->fd, parent, WATCH_ABOVE);
        if (!slash || slash == above) {
            return; /* the root or "." has no parent */
        }
    }
}

/* Sets the watch again. If it moved to a lower directory, repeats the search, because the
 * awaited name may have appeared before the watch was set. */
static void watch(struct checkpoints *c)
{
    for (int i = 0; i < WATCH_ATTEMPTS; i++) {
        int old = c->watch;
        watch_nearest(c);
        if (old >= 0 && old != c->watch) {
            (void)inotify_rm_watch(c->fd, old);
        }
        if (c->is_direct || c->watch == old) {
            break;
        }
    }
    if (c->is_direct) {
        read_new_state(c);
    }
}

static void handle_event(struct checkpoints *c, const struct inotify_event *event, bool *again)
{
    if (event->mask & IN_Q_OVERFLOW) {
        *again = true;
        return;
    }
    if (event->wd != c->watch) {
        return; /* event of a watch that was removed */
    }
    if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) {
        *again = true;
    } else if (!event->len) {
        return;
    } else if (!c->is_direct) {
        *again = *again || strcmp(event->name, c->awaited) == 0;
    } else if (strcmp(event->name, CHECKPOINT_STATE_FILE) == 0) {
        read_new_state(c);
    } else if (event->mask & (IN_CREATE | IN_MOVED_TO)) {
        note_begun(c, event->name);
    }
}

/* Handles all queued events. */
static void handle_events(struct checkpoints *c)
{
    union {
        char bytes[4096];
        struct inotify_event align;
    } buffer;
    bool again = false;
    for (int i = 0; c->fd >= 0 && i < READS_MAX; i++) {
        ssize_t n = read(c->fd, buffer.bytes, sizeof(buffer.bytes));
        if (n <= 0) {
            break;
        }
        for (size_t at = 0; at < (size_t)n;) {
            const struct inotify_event *event =
                (const struct inotify_event *)(const void *)(buffer.bytes + at);
            handle_event(c, event, &again);
            at += sizeof(*event) + event->len;
        }
    }
    if (again) {
        watch(c);
    }
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    handle_events(ctx);
}

void checkpoints_begin(struct checkpoints *c)
{
    checkpoints_fn *fn = c->fn;
    c->fn = NULL;
    handle_events(c);
    c->fn = fn;
    c->save_number = 0;
    memset(c->begun, 0, sizeof(c->begun));
}

void checkpoints_catch_up(struct checkpoints *c)
{
    handle_events(c);
}

void checkpoints_request_save(struct checkpoints *c, uint64_t number)
{
    handle_events(c); /* a checkpoint started before this request does not answer it */
    c->save_number = number;
}

struct checkpoints *checkpoints_new(struct event_base *base, const char *dir, checkpoints_fn *fn,
                                    void *ctx)
{
    struct checkpoints *c = must_alloc(sizeof(*c));
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/') {
        n--;
    }
    TFE_ASSERT(n < sizeof(c->path));
    memcpy(c->path, dir, n);
    c->ctx = ctx;
    c->watch = -1;
    c->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (c->fd >= 0) {
        c->readable = event_new(base, c->fd, EV_READ | EV_PERSIST, on_readable, c);
        must_succeed(c->readable && event_add(c->readable, NULL) == 0);
        watch(c);
    }
    if (c->watch < 0) {
        log_warn("checkpoint_dir_not_watched", LOG_S("path", c->path),
                 LOG_S("reason", strerror(errno)));
    }
    c->fn = fn;
    return c;
}

void checkpoints_free(struct checkpoints *c)
{
    if (!c) {
        return;
    }
    event_drop(&c->readable);
    fd_close(&c->fd);
    free(c);
}

uint64_t checkpoints_epoch(const char *dir)
{
    uint64_t highest = 0;
    DIR *entries = opendir(dir);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        uint64_t epoch = checkpoint_name_epoch(entry->d_name);
        highest = epoch > highest ? epoch : highest;
    }
    if (entries) {
        closedir(entries);
    }
    return highest;
}
