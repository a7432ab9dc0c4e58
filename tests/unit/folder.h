/* tests/unit/folder.h: a folder of a test's own, and an event loop to turn. */
#ifndef TFE_TESTS_UNIT_FOLDER_H
#define TFE_TESTS_UNIT_FOLDER_H

#include <event2/event.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/test_runner.h"

/* Nothing here takes a second. */
#define TIMEOUT_MS 20000

static inline int folder_remove_one(const char *path, const struct stat *st, int type,
                                    struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void folder_remove(const char *path)
{
    nftw(path, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* "/tmp/tfe-unit-XXXXXX" */
#define FOLDER_BYTES 32
static inline void folder_make(char ret[FOLDER_BYTES])
{
    snprintf(ret, FOLDER_BYTES, "/tmp/tfe-unit-XXXXXX");
    assert_non_null(mkdtemp(ret));
}

static inline const char *folder_path(const char *folder, const char *name)
{
    static char paths[4][512];
    static int at;
    char *path = paths[at++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static inline void folder_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static inline long folder_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Turns the loop until condition holds; fails the test if it never does. */
#define TURN_UNTIL(base, condition)                                                                \
    do {                                                                                           \
        long turn_give_up = folder_ms() + TIMEOUT_MS;                                              \
        while (!(condition)) {                                                                     \
            assert_true(folder_ms() < turn_give_up);                                               \
            event_base_loopexit((base), &(struct timeval){.tv_usec = 2000});                       \
            event_base_loop((base), EVLOOP_ONCE);                                                  \
        }                                                                                          \
    } while (0)

/* Turns the loop for long enough that whatever was there has been taken. */
static inline void turn_a_while(struct event_base *base)
{
    event_base_loopexit(base, &(struct timeval){.tv_usec = 60000});
    event_base_dispatch(base);
}

#endif
