/* tests/unit/test_runner.c: the stories of a program, in the order of its lines. */
#include "tests/unit/test_runner.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STORIES_MAX 64
#define THREADS "/proc/self/task"
#define LET_GO_MS 10000

static struct CMUnitTest stories[STORIES_MAX]; /* cmocka passes over those without a name */
static int lines[STORIES_MAX];
static size_t n_stories;

void story_add(int line, struct CMUnitTest story)
{
    assert_true(n_stories < STORIES_MAX);
    size_t at = n_stories++;
    for (; at > 0 && lines[at - 1] > line; at--) {
        lines[at] = lines[at - 1];
        stories[at] = stories[at - 1];
    }
    lines[at] = line;
    stories[at] = story;
}

/* Entries of a directory of /proc/self, among them those of the look itself. */
static int count_entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir)) {
        n++;
    }
    if (dir) {
        (void)closedir(dir);
    }
    return n;
}

/* How many descriptors are open; each is named where asked for. */
static int count_open(bool names)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[64];
        char what[256];
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%.16s", entry->d_name);
        ssize_t length = readlink(path, what, sizeof(what));
        n += entry->d_name[0] != '.';
        if (names && length > 0) {
            (void)fprintf(stderr, "%s: %.*s\n", entry->d_name, (int)length, what);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    return n;
}

/* How many more are open than there were. A thread that was let go (worker.h) closes what it has
 * when it ends, which is soon, but for one that hangs. */
static int count_left(int open, int threads)
{
    int more = count_open(false) - open;
    for (int ms = 0; more > 0 && ms < LET_GO_MS && count_entries(THREADS) > threads; ms++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        more = count_open(false) - open;
    }
    return more > 0 ? count_open(false) - open
                    : more; /* it may have ended before it was looked for */
}

int stories_run(CMFixtureFunction before, CMFixtureFunction after)
{
    int open = count_open(false);
    int threads = count_entries(THREADS);
    int failed = cmocka_run_group_tests(stories, before, after);
    int more = count_left(open, threads);
    if (more > 0 && failed == 0) {
        (void)fprintf(stderr, "%d descriptors are left open, of these:\n", more);
        (void)count_open(true);
        return 1;
    }
    return failed;
}
