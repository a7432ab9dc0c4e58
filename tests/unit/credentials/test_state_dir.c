/* tests/unit/credentials/test_state_dir.c: location of the state directory, and files that are
 * complete or absent. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/credentials/state_dir.h"
#include "tests/unit/test_runner.h"

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/tfe-state-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* Returns the number of directory entries without "." and "..". */
static unsigned entries(void)
{
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    unsigned n = 0;
    while (readdir(dir)) {
        n++;
    }
    assert_int_equal(closedir(dir), 0);
    return n - 2;
}

static int remove_directory(void **state)
{
    (void)state;
    DIR *dir = opendir(directory);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.') {
            (void)remove(path_of(entry->d_name));
        }
    }
    (void)(dir && closedir(dir));
    return rmdir(directory);
}

TEST(state_dir, is_found_in_order)
{
    char found[PATH_MAX];
    struct tfe_reason reason;
    assert_int_equal(setenv("TFE_STATE_DIR", "/env", 1), 0);
    assert_int_equal(state_dir_find("/chosen", found, &reason), 0);
    assert_string_equal(found, "/chosen");
    assert_int_equal(state_dir_find(NULL, found, &reason), 0);
    assert_string_equal(found, "/env");
    assert_int_equal(state_dir_find("", found, &reason), 0);
    assert_string_equal(found, "/env");
    assert_int_equal(unsetenv("TFE_STATE_DIR"), 0);

    const bool root = geteuid() == 0;
    assert_int_equal(setenv("HOME", "/home/u", 1), 0);
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    assert_int_equal(state_dir_find(NULL, found, &reason), 0);
    assert_string_equal(found, root ? "/var/lib/tfe" : "/home/u/.local/state/tfe");
    if (root) {
        /* The remaining locations are for other users than root. */
        assert_int_equal(seteuid(65534), 0);
    }
    assert_int_equal(state_dir_find(NULL, found, &reason), 0);
    assert_string_equal(found, "/home/u/.local/state/tfe");
    assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0);
    assert_int_equal(state_dir_find(NULL, found, &reason), 0);
    assert_string_equal(found, "/home/u/.local/state/tfe");
    assert_int_equal(setenv("XDG_STATE_HOME", "/xdg", 1), 0);
    assert_int_equal(state_dir_find(NULL, found, &reason), 0);
    assert_string_equal(found, "/xdg/tfe");
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(state_dir_find(NULL, found, &reason), TFE_ENOENT);
    assert_non_null(strstr(reason.text, "--state-dir"));
    if (root) {
        assert_int_equal(seteuid(0), 0);
    }
}

TEST(state_dir, a_path_that_is_too_long_is_refused)
{
    static char path[PATH_MAX + 1];
    char found[PATH_MAX];
    struct tfe_reason reason;
    memset(path, 'a', PATH_MAX);
    assert_int_equal(state_dir_find(path, found, &reason), TFE_ETOOBIG);
    path[PATH_MAX - 1] = '\0';
    assert_int_equal(state_dir_find(path, found, &reason), 0);
}

TEST(state_dir, names_of_tokens)
{
    assert_string_equal(state_dir_token_name(PRINCIPAL_AGENT), "agent.token");
    assert_string_equal(state_dir_token_name(PRINCIPAL_OBSERVER), "observer.token");
    assert_string_equal(state_dir_token_name(PRINCIPAL_ADMIN), "admin.token");
}

#define FIXTURE make_directory, remove_directory

TEST_IN(state_dir, what_is_written_is_read_and_is_its_owners)
{
    struct tfe_reason reason;
    char text[32];
    const mode_t before = umask(0);
    assert_int_equal(state_dir_write(path_of("f"), "hello\r\n", 7, &reason), 0);
    (void)umask(before);
    struct stat st;
    assert_int_equal(stat(path_of("f"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, 7);
    assert_int_equal(state_dir_read(path_of("f"), text, sizeof text, &reason), 0);
    assert_string_equal(text, "hello");
    assert_int_equal(entries(), 1);
}

TEST_IN(state_dir, writing_replaces_whole_and_readers_keep_what_they_have)
{
    struct tfe_reason reason;
    char text[32];
    assert_int_equal(state_dir_write(path_of("f"), "old", 3, &reason), 0);
    const int old = open(path_of("f"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(chmod(path_of("f"), 0644), 0);
    assert_int_equal(state_dir_write(path_of("f"), "newer", 5, &reason), 0);
    assert_int_equal(read(old, text, sizeof text), 3);
    assert_memory_equal(text, "old", 3);
    assert_int_equal(close(old), 0);
    struct stat st;
    assert_int_equal(stat(path_of("f"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(entries(), 1);
}

TEST_IN(state_dir, a_write_that_fails_leaves_nothing_and_says_where)
{
    struct tfe_reason reason;
    assert_int_equal(state_dir_write(path_of("no/f"), "x", 1, &reason), TFE_ESYS);
    assert_non_null(strstr(reason.text, "no/f"));
    assert_non_null(strstr(reason.text, "no such file or directory"));
    /* A directory is in the way: all steps succeed except the rename. */
    assert_int_equal(mkdir(path_of("d"), 0700), 0);
    assert_int_equal(state_dir_write(path_of("d"), "x", 1, &reason), TFE_ESYS);
    assert_non_null(strstr(reason.text, "is a directory"));
    assert_int_equal(entries(), 1);
}

TEST_IN(state_dir, a_path_that_is_too_long_is_named)
{
    struct tfe_reason reason = {.text = ""};
    char longest[PATH_MAX] = "";
    char path[PATH_MAX];
    memset(longest, 'd', PATH_MAX - 3);
    assert_int_equal(state_dir_path(path, longest, "f", &reason), 0);
    assert_int_equal(strlen(path), PATH_MAX - 1);
    assert_int_equal(state_dir_path(path, longest, "fo", &reason), TFE_ETOOBIG);
    assert_int_equal(reason.text[0], 'd');
}

TEST_IN(state_dir, a_pipe_is_no_file_and_nobody_waits_for_one)
{
    char text[64];
    struct tfe_reason reason;
    const char *pipe = path_of("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(state_dir_read(pipe, text, sizeof(text), &reason), TFE_ESYS);
    assert_int_equal(state_dir_read_secret(pipe, text, sizeof(text), &reason), TFE_ESYS);
    assert_int_equal(state_dir_read_secret("/dev/zero", text, sizeof(text), &reason), TFE_ESYS);
    const int writer = open(pipe, O_RDWR | O_CLOEXEC);
    assert_int_equal(write(writer, "token\n", 6), 6);
    assert_int_equal(state_dir_read_named_secret(pipe, text, 6, &reason), TFE_ETOOBIG);
    (void)close(writer);
}

TEST_IN(state_dir, a_name_that_leads_out_of_it_is_refused)
{
    char path[PATH_MAX];
    struct tfe_reason reason;
    assert_int_equal(state_dir_path(path, "d", "..", &reason), TFE_EINVAL);
    assert_int_equal(state_dir_path(path, "d", "a/b", &reason), TFE_EINVAL);
    assert_int_equal(state_dir_path(path, "d", "", &reason), TFE_EINVAL);
}

TEST_IN(state_dir, only_the_last_line_end_is_cut)
{
    struct tfe_reason reason;
    char text[32];
    static const struct {
        const char *in;
        const char *out;
    } cases[] = {{"", ""}, {"\n", ""}, {"a\n\n", "a\n"}, {"a\r\n", "a"}, {" a ", " a "}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(state_dir_write(path_of("f"), cases[i].in, strlen(cases[i].in), &reason),
                         0);
        assert_int_equal(state_dir_read(path_of("f"), text, sizeof text, &reason), 0);
        assert_string_equal(text, cases[i].out);
    }
}

TEST_IN(state_dir, reading_tells_absent_too_large_and_unreadable_apart)
{
    struct tfe_reason reason;
    char text[4];
    assert_int_equal(state_dir_read(path_of("none"), text, sizeof text, &reason), TFE_ENOENT);
    assert_non_null(strstr(reason.text, "none: no such file or directory"));
    assert_int_equal(state_dir_write(path_of("f"), "abc", 3, &reason), 0);
    assert_int_equal(state_dir_read(path_of("f"), text, sizeof text, &reason), 0);
    assert_int_equal(state_dir_read(path_of("f/x"), text, sizeof text, &reason), TFE_ENOENT);
    assert_int_equal(state_dir_write(path_of("f"), "abcd", 4, &reason), 0);
    assert_int_equal(state_dir_read(path_of("f"), text, sizeof text, &reason), TFE_ETOOBIG);
    assert_non_null(strstr(reason.text, "longer than 3 bytes"));
    assert_memory_equal(text, "\0\0\0\0", 4);
    assert_int_equal(state_dir_read(directory, text, sizeof text, &reason), TFE_ESYS);
    assert_non_null(strstr(reason.text, "is not a regular file"));
}
