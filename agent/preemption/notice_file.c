/* agent/preemption/notice_file.c: polls a path whose existence is a notice; the file may contain
 * the number of seconds left. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/preemption/source.h"

/* Fits a number of seconds and some blanks. */
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
    struct stat facts;
    struct tfe_mono deadline;
    if (stat(path, &facts)) {
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
        source_failed(s, path, "it holds something else than one number of seconds");
    } else {
        source_works(s);
    }
    /* A different number sets a new deadline. */
    source_set(s, NOTICE_PREEMPT, is_number ? text : "", deadline, !is_number);
}

static void turn(struct source_poll *poll)
{
    struct source *s = poll->source;
    check_file(s, s->wish->choice->file);
    source_poll_after(poll, s->wish->intervals->file_ms);
}

const struct source_ops source_file = {.name = "file", .turn = turn};
