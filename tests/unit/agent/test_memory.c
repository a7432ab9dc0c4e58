/* tests/unit/agent/test_memory.c: free memory, computed from simulated files: paths below /proc
 * and control groups are opened in the test's own directory (__wrap_fopen). */
#include <string.h>

#include "agent/os/cgroup.h"
#include "agent/os/memory.h"
#include "tests/unit/folder.h"

#define MIB (UINT64_C(1) << 20)

static char folder[FOLDER_BYTES];

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    const char *name = strrchr(path, '/');
    return __real_fopen(strncmp(path, "/proc/", 6) == 0 ? folder_path(folder, name + 1) : path,
                        mode);
}

static void say(const char *name, const char *text)
{
    folder_write(folder_path(folder, name), text);
}

/* Creates a machine whose process is in a group of version 2 with a parent: files "group/..."
 * and "group/own/...". */
static int machine(void **state)
{
    char text[200];
    (void)state;
    folder_make(folder);
    assert_int_equal(mkdir(folder_path(folder, "group"), 0700), 0);
    assert_int_equal(mkdir(folder_path(folder, "group/own"), 0700), 0);
    say("meminfo",
        "MemTotal:       4096000 kB\nMemFree:         100000 kB\nMemAvailable:   3072000 kB\n");
    say("vmstat", "nr_free_pages 1\noom_kill 3\n");
    say("cgroup", "1:cpu:/elsewhere\n0::/own\n");
    say("group/cgroup.procs", "");
    say("group/own/cgroup.procs", "");
    say("group/own/memory.max", "max\n");
    snprintf(text, sizeof text,
             "30 1 0:26 / /sys/fs/else rw - cgroup cgroup rw,cpu\n"
             "31 1 0:27 / %s/group rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
             folder);
    say("mountinfo", text);
    return 0;
}

static int machine_gone(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}
#define FIXTURE machine, machine_gone

TEST_IN(memory, unlimited_machine_has_the_kernels_available_memory)
{
    assert_int_equal(memory_free_bytes(), UINT64_C(3072000) << 10);
    assert_in_range(memory_free_percent(), 74, 75);
}

TEST_IN(memory, tightest_cgroup_counts_and_caches_are_available)
{
    say("group/memory.max", "104857600\n");    /* 100 MiB */
    say("group/memory.current", "83886080\n"); /* 80 */
    assert_int_equal(memory_free_bytes(), 20 * MIB);
    assert_in_range(memory_free_percent(), 19, 20);
    say("group/memory.stat", "anon 5\ninactive_file 31457280\n"); /* 30 MiB */
    assert_int_equal(memory_free_bytes(), 50 * MIB);
    assert_in_range(memory_free_percent(), 49, 50);
    /* The process's own group has more memory left, but a larger part of it is used. */
    say("group/own/memory.max", "1073741824\n");
    say("group/own/memory.current", "1020054732\n");
    assert_int_equal(memory_free_bytes(), 50 * MIB);
    assert_in_range(memory_free_percent(), 4, 5);
    say("group/own/memory.current", "1073741825\n"); /* temporarily above the limit */
    assert_int_equal(memory_free_bytes(), 0);
    assert_int_equal(memory_free_percent(), 0);
}

TEST_IN(memory, kills_are_counted_by_the_cgroup_or_the_machine)
{
    assert_int_equal(memory_kills(), 3);
    say("group/own/memory.events", "low 0\noom 7\noom_kill 5\noom_kill_group 9\n");
    assert_int_equal(memory_kills(), 5);
    say("cgroup", "4:cpu,memory:/own\n");
    assert_int_equal(memory_kills(), 3); /* no hierarchy of version 1 is mounted */
    char text[200];
    snprintf(text, sizeof text, "31 1 0:27 /own %s/group rw - cgroup cgroup rw,cpu,memory\n",
             folder);
    say("mountinfo", text);
    say("group/memory.oom_control", "oom_kill_disable 0\noom_kill 2\n");
    assert_int_equal(memory_kills(), 2);
}

TEST_IN(memory, cgroup_of_a_container_is_found_by_its_mount)
{
    char text[200];
    char own[PATH_MAX];
    say("cgroup", "0::/pods/own\n");
    snprintf(text, sizeof text, "31 1 0:27 /pods %s/group rw - cgroup2 cgroup2 rw\n", folder);
    say("mountinfo", text);
    assert_true(cgroup_own(NULL, own));
    assert_string_equal(own, folder_path(folder, "group/own"));
    assert_false(cgroup_own("memory", own));
    say("cgroup", "0::/not/shown/here\n");
    assert_true(cgroup_own(NULL, own));
    assert_string_equal(own, folder_path(folder, "group"));
    assert_false(cgroup_up(own)); /* it is the root group */
}
