/* agent/notice/file.c: a path whose being there is the warning; it may hold the seconds that are
 * left. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/notice/source.h"
#include "common/net/timer.h"

/* A number of seconds and some blanks. */
#define HOLDS_MAX 32

struct file {
    struct event *timer;
};

/* What it holds, cut. "": nothing, or it cannot be read; a pipe or a folder holds nothing. */
static void read_file(const char *path, char ret[HOLDS_MAX + 1])
{
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) {
        n = read(fd, ret, HOLDS_MAX);
        close(fd);
    }
    ret[n > 0 ? n : 0] = '\0';
}

static void look(struct source *s, const char *path)
{
    char text[HOLDS_MAX + 1];
    struct stat facts;
    struct tfe_mono deadline;
    if (stat(path, &facts)) {
        if (errno == ENOENT || errno == ENOTDIR) {
            source_works(s);
            source_quiet(s, NOTICE_PREEMPT);
        } else {
            source_failed(s, path, strerror(errno));
        }
        return;
    }
    read_file(path, text);
    const bool is_number = source_seconds(text, &deadline);
    if (!is_number) {
        deadline = source_grace(s);
    }
    if (!is_number && text[strspn(text, " \t\r\n")] != '\0') {
        source_failed(s, path, "it holds something else than one number of seconds");
    } else {
        source_works(s);
    }
    /* Another number is another deadline. */
    source_tell(s, NOTICE_PREEMPT, is_number ? text : "", deadline, !is_number);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct source *s = ctx;
    struct file *file = s->own;
    look(s, s->wish->choice->file);
    timer_after(file->timer, s->wish->pace->file_ms);
}

static int start(struct source *s)
{
    struct file *file = s->own;
    file->timer = evtimer_new(s->base, on_timer, s);
    if (!file->timer) {
        return TFE_ENOMEM;
    }
    timer_after(file->timer, 0);
    return 0;
}

static void stop(struct source *s)
{
    struct file *file = s->own;
    if (file->timer) {
        event_free(file->timer);
        file->timer = NULL;
    }
}

const struct source_ops source_file = {
    .name = "file", .size = sizeof(struct file), .start = start, .stop = stop};
