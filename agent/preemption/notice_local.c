/* agent/preemption/notice_local.c: sources of notices on this machine: a file and a signal. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/preemption/source.h"
#include "common/base/heap.h"
#include "common/base/timer.h"

/*
 * File: its existence is a notice; it may contain the number of seconds left.
 */

/* Bytes read from the file: enough for a number of seconds and some blanks. */
#define HOLDS_MAX 32

/* Reads the beginning of the file; "" if it is empty or unreadable, or a pipe or directory. */
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

static void check_file(struct source *s, const char *path)
{
    char text[HOLDS_MAX + 1];
    struct stat st;
    struct tfe_mono deadline;
    if (stat(path, &st)) {
        if (errno == ENOENT || errno == ENOTDIR) {
            source_works(s);
            source_withdraw(s, NOTICE_PREEMPT);
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
        source_failed(s, path, "expected one number of seconds");
    } else {
        source_works(s);
    }
    /* A different number sets a new deadline. */
    source_set(s, NOTICE_PREEMPT, is_number ? text : "", deadline, !is_number);
}

static void file_turn(struct source_poll *poll)
{
    struct source *s = poll->source;
    check_file(s, s->options->choice->file);
    source_poll_after(poll, s->options->intervals->file_ms);
}

const struct source_ops source_file = {.name = "file", .turn = file_turn};

/*
 * Signal that a scheduler such as Slurm sends before it ends the job. SIGTERM and SIGINT end the
 * agent and are handled by the core, as is SIGHUP unless it is selected here.
 */

struct signal_source {
    struct event *event;
    uint32_t n;
};

static void on_signal(evutil_socket_t signo, short what, void *ctx)
{
    struct source *s = ctx;
    struct signal_source *own = s->own;
    char tag[32];
    /* Each signal is a separate notice with a new deadline. */
    snprintf(tag, sizeof tag, "%d, number %u", (int)signo, (unsigned)++own->n);
    source_set(s, NOTICE_SIGNAL, tag, source_grace(s), false);
}

static void signal_start(struct source *s)
{
    struct signal_source *own = s->own;
    own->event = evsignal_new(s->base, s->options->choice->signo, on_signal, s);
    must_succeed(own->event && evsignal_add(own->event, NULL) == 0);
}

static void signal_stop(struct source *s)
{
    event_drop(&((struct signal_source *)s->own)->event);
}

const struct source_ops source_signal = {.name = "signal",
                                         .size = sizeof(struct signal_source),
                                         .start = signal_start,
                                         .stop = signal_stop};
