/* tests/unit/script_channel/test_private_dir.c: the private directory is inaccessible to others,
 * and directories of killed agents are removed. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "agent/os/private_dir.h"
#include "agent/os/remove_tree.h"
#include "tests/unit/folder.h"

static char base[FOLDER_BYTES];

static int setup(void **state)
{
    (void)state;
    folder_make(base);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(base);
    return 0;
}

static struct private_dir make(void)
{
    struct private_dir dir;
    struct tfe_reason reason;
    assert_int_equal(private_dir_new(base, &dir, &reason), 0);
    return dir;
}

#define FIXTURE setup, teardown

static size_t counted;

static void count_one(int dir, const char *name)
{
    (void)dir;
    (void)name;
    counted++;
}

TEST_IN(private_dir, it_is_closed_to_others_and_goes_with_what_is_in_it)
{
    struct private_dir dir = make();
    struct stat st;
    assert_int_equal(stat(dir.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    folder_write(folder_path(dir.path, "preempt"), "");
    folder_write(folder_path(dir.path, "agent"), "");
    folder_write(folder_path(dir.path, "script-12"), "");
    char path[sizeof(dir.path)];
    memcpy(path, dir.path, sizeof(path));
    private_dir_done(&dir);
    assert_int_equal(access(path, F_OK), -1);
    private_dir_done(&dir); /* a second call is harmless */
}

/* Creates what a killed agent leaves: a directory with files whose lock is released. */
static void leave_one(char ret[PRIVATE_DIR_MAX + 1])
{
    int told[2];
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct private_dir dir = make();
        folder_write(folder_path(dir.path, "script-1"), "");
        (void)!write(told[1], dir.path, sizeof(dir.path));
        _exit(0);
    }
    assert_int_equal(read(told[0], ret, PRIVATE_DIR_MAX + 1), PRIVATE_DIR_MAX + 1);
    waitpid(pid, NULL, 0);
    close(told[0]);
    close(told[1]);
}

TEST_IN(private_dir, the_next_agent_cleans_up_after_a_dead_one_and_leaves_the_living_alone)
{
    char dead[PRIVATE_DIR_MAX + 1];
    leave_one(dead);
    assert_int_equal(access(dead, F_OK), 0);
    struct private_dir a = make();
    assert_int_equal(access(dead, F_OK), -1);
    folder_write(folder_path(a.path, "agent"), "");
    struct private_dir b = make();
    assert_int_equal(access(folder_path(a.path, "agent"), F_OK), 0);
    private_dir_done(&b);
    private_dir_done(&a);
}

/* Makes the artifacts of the agent with this directory, marked as not stored if has_mark. */
static void add_artifacts(const char *path, bool has_mark)
{
    char artifacts[256];
    (void)snprintf(artifacts, sizeof artifacts, "%s/artifacts", path);
    assert_int_equal(mkdir(artifacts, 0700), 0);
    folder_write(folder_path(artifacts, "model"), "m");
    if (has_mark) {
        folder_write(folder_path(artifacts, ".not-stored"), "");
    }
}

TEST_IN(private_dir, artifacts_stay_for_a_week_if_they_were_not_stored)
{
    const struct timespec week_ago[2] = {{.tv_sec = time(NULL) - PRIVATE_DIR_KEPT_S - 1},
                                         {.tv_sec = time(NULL) - PRIVATE_DIR_KEPT_S - 1}};
    const struct timespec next_year[2] = {{.tv_sec = time(NULL) + 31536000},
                                          {.tv_sec = time(NULL) + 31536000}};
    struct private_dir stored = make();
    struct private_dir lost = make();
    struct private_dir pool = make();
    char inner[256];
    (void)snprintf(inner, sizeof inner, "%s/tfe-agent-0123456789abcdef", pool.path);
    assert_int_equal(mkdir(inner, 0700), 0);
    add_artifacts(stored.path, false);
    add_artifacts(lost.path, true);
    add_artifacts(inner, true);
    const struct private_dir gone = stored;
    const struct private_dir kept[] = {lost, pool};
    private_dir_done(&stored);
    private_dir_done(&lost);
    private_dir_done(&pool);
    assert_int_equal(access(gone.path, F_OK), -1);
    struct private_dir next = make(); /* cleans up */
    assert_int_equal(access(folder_path(kept[0].path, "artifacts/model"), F_OK), 0);
    assert_int_equal(access(folder_path(inner, "artifacts/model"), F_OK), 0);
    assert_int_equal(
        utimensat(AT_FDCWD, folder_path(kept[0].path, "artifacts/.not-stored"), week_ago, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, folder_path(inner, "artifacts/.not-stored"), next_year, 0),
                     0);
    struct private_dir last = make();
    assert_int_equal(access(kept[0].path, F_OK), -1);
    assert_int_equal(access(kept[1].path, F_OK), -1);
    private_dir_done(&next);
    private_dir_done(&last);
}

TEST_IN(private_dir, what_only_looks_like_ours_is_left_alone)
{
    char elsewhere[FOLDER_BYTES];
    folder_make(elsewhere);
    folder_write(folder_path(elsewhere, "agent"), "precious");
    chmod(elsewhere, 0700);
    const char *link = folder_path(base, "tfe-agent-0123456789abcdef");
    assert_int_equal(symlink(elsewhere, link), 0);
    const char *open_to_all = folder_path(base, "tfe-agent-00000000000000ff");
    assert_int_equal(mkdir(open_to_all, 0755), 0);
    assert_int_equal(mkdir(folder_path(base, "tfe-agent-of-a-friend"), 0700), 0);
    char dead[PRIVATE_DIR_MAX + 1];
    leave_one(dead);
    folder_write(folder_path(dead, "thesis.tex"), "precious");
    struct private_dir dir = make();
    assert_int_equal(access(folder_path(elsewhere, "agent"), F_OK), 0);
    assert_int_equal(access(link, F_OK), 0);
    assert_int_equal(access(open_to_all, F_OK), 0);
    assert_int_equal(access(folder_path(base, "tfe-agent-of-a-friend"), F_OK), 0);
    assert_int_equal(access(folder_path(dead, "thesis.tex"), F_OK), 0);
    private_dir_done(&dir);
    folder_remove(elsewhere);
}

/* Creates nested directories below the current one, each with a file. */
static void nest(int depth)
{
    const int start = open(".", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < depth; i++) {
        assert_int_equal(mkdir("d", 0700), 0);
        assert_int_equal(chdir("d"), 0);
        folder_write("file", "");
    }
    assert_int_equal(chmod(".", 0500), 0);
    assert_int_equal(fchdir(start), 0);
    close(start);
}

TEST_IN(private_dir, a_deep_tree_of_a_trainer_is_removed_whatever_its_depth)
{
    struct private_dir dir = make();
    const int start = open(".", O_RDONLY | O_DIRECTORY);
    size_t budget = 300;
    assert_int_equal(mkdirat(dir.fd, "tmp", 0700), 0);
    assert_int_equal(chdir(folder_path(dir.path, "tmp")), 0);
    nest(1200); /* more than a path can name, or a process can have descriptors */
    assert_int_equal(fchdir(start), 0);
    close(start);
    assert_false(entries_remove(dir.fd, "tmp", &budget)); /* a part at a time */
    assert_int_equal(budget, 0);
    private_dir_done(&dir);
    assert_int_equal(access(dir.path, F_OK), -1);
}

TEST_IN(private_dir, any_number_of_files_takes_a_limited_time)
{
    struct private_dir dir = make();
    for (int i = 0; i < 6000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "script-x%d", i);
        folder_write(folder_path(dir.path, name), "");
    }
    private_dir_clear(&dir, PRIVATE_DIR_SCRIPT);
    counted = 0;
    entries_each(dir.fd, PRIVATE_DIR_SCRIPT, count_one);
    assert_in_range(counted, 1000, 5999);
    private_dir_done(&dir);
    assert_int_equal(access(dir.path, F_OK), -1);
}

TEST_IN(private_dir, a_place_that_cannot_be_used_is_named)
{
    struct private_dir dir;
    struct tfe_reason reason;
    assert_int_equal(private_dir_new(folder_path(base, "nowhere"), &dir, &reason), TFE_ESYS);
    assert_non_null(strstr(reason.text, "nowhere"));
    assert_int_equal(dir.fd, -1);
    char deep[200];
    memset(deep, 'x', sizeof(deep));
    deep[0] = '/';
    deep[sizeof(deep) - 1] = '\0';
    assert_int_equal(private_dir_new(deep, &dir, &reason), TFE_ETOOBIG);
    private_dir_done(&dir);
}
