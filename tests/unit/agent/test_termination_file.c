/* tests/unit/agent/test_termination_file.c: proofs of termination that guards leave in /tmp
 * for the next agent. */
#include <dirent.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "agent/os/termination_file.h"
#include "tests/unit/folder.h"

/* A job name that no other run of the test uses. */
static char job[40];

static void make(struct termination_file *file)
{
    char certificate[PROOF_CHARS + 1];
    struct tfe_id hash;
    proof_make(certificate);
    assert_int_equal(proof_hash_of(certificate, &hash), 0);
    termination_file_plan(file, &hash, certificate);
    assert_true(strncmp(file->path, "/tmp/tfe-dead-", 14) == 0);
}

static void leave(struct termination_file *file)
{
    make(file);
    termination_file_write(file, job);
}

/* Moves the file's time into the past. */
static void age(const struct termination_file *file, time_t seconds)
{
    const struct timespec at = {.tv_sec = time(NULL) - seconds};
    const struct timespec both[2] = {at, at};
    assert_int_equal(utimensat(AT_FDCWD, file->path, both, 0), 0);
}

static char found[TERMINATION_FILES_MAX][PROOF_CHARS + 1];

static size_t find(void)
{
    memset(found, 0, sizeof found);
    return termination_files_find(job, found);
}

static bool has(const struct termination_file *file)
{
    for (size_t i = 0; i < TERMINATION_FILES_MAX; i++) {
        if (found[i][0] && strstr(file->line, found[i])) {
            return true;
        }
    }
    return false;
}

static size_t count_open(void)
{
    size_t n = 0;
    DIR *fds = opendir("/proc/self/fd");
    while (readdir(fds)) {
        n++;
    }
    closedir(fds);
    return n;
}

TEST(termination_file, agents_of_the_job_find_it_until_removed)
{
    struct termination_file file;
    struct stat st;
    leave(&file);
    assert_int_equal(stat(file.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    size_t open_before = count_open();
    assert_int_equal(find(), 1);
    assert_true(has(&file));
    assert_int_equal(termination_files_find("another-job", found), 0);
    assert_int_equal(count_open(), open_before);
    termination_file_remove(&file);
    assert_int_equal(find(), 0);
}

TEST(termination_file, existing_file_is_not_overwritten)
{
    struct termination_file file;
    struct stat st;
    make(&file);
    folder_write(file.path, "somebody's");
    termination_file_write(&file, job);
    assert_int_equal(stat(file.path, &st), 0);
    assert_int_equal(st.st_size, strlen("somebody's"));
    termination_file_remove(&file);
    /* Symbolic links are not followed. */
    char elsewhere[FOLDER_BYTES];
    folder_make(elsewhere);
    assert_int_equal(symlink(folder_path(elsewhere, "target"), file.path), 0);
    termination_file_write(&file, job);
    assert_int_equal(access(folder_path(elsewhere, "target"), F_OK), -1);
    termination_file_remove(&file);
    folder_remove(elsewhere);
}

TEST(termination_file, file_with_other_properties_is_rejected)
{
    struct termination_file file;
    leave(&file);
    assert_int_equal(chmod(file.path, 0640), 0);
    assert_int_equal(find(), 0);
    assert_int_equal(chmod(file.path, 0600), 0);
    assert_int_equal(find(), 1);
    if (geteuid() == 0) {
        assert_int_equal(chown(file.path, 65534, 65534), 0);
        assert_int_equal(find(), 0);
        assert_int_equal(chown(file.path, 0, 0), 0);
    }
    /* A file with another name, or behind a symbolic link. */
    char longer[TERMINATION_FILE_PATH_MAX + 2];
    snprintf(longer, sizeof longer, "%s0", file.path);
    assert_int_equal(rename(file.path, longer), 0);
    assert_int_equal(find(), 0);
    assert_int_equal(symlink(longer, file.path), 0);
    assert_int_equal(find(), 0);
    assert_int_equal(unlink(file.path), 0);
    assert_int_equal(unlink(longer), 0);
    /* Truncated, or with an additional line. */
    char text[TERMINATION_FILE_TEXT_MAX + 8];
    snprintf(text, sizeof text, "%.40s", file.line);
    folder_write(file.path, text);
    assert_int_equal(find(), 0);
    snprintf(text, sizeof text, "%sjob %s\n.\n", file.line, job);
    folder_write(file.path, text);
    assert_int_equal(find(), 0);
    termination_file_remove(&file);
}

TEST(termination_file, file_older_than_a_day_is_removed)
{
    struct termination_file old;
    struct termination_file young;
    leave(&old);
    leave(&young);
    age(&old, 24 * 60 * 60 + 60);
    age(&young, 24 * 60 * 60 - 60);
    assert_int_equal(find(), 1);
    assert_true(has(&young));
    assert_int_equal(access(old.path, F_OK), -1);
    termination_file_remove(&young);
}

TEST(termination_file, newest_files_count_above_the_limit)
{
    struct termination_file files[TERMINATION_FILES_MAX + 4];
    size_t n = sizeof files / sizeof files[0];
    for (size_t i = 0; i < n; i++) {
        leave(&files[i]);
        age(&files[i], (time_t)(100 * ((i * 5) % n + 1)));
    }
    assert_int_equal(find(), TERMINATION_FILES_MAX);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(has(&files[i]), (i * 5) % n < TERMINATION_FILES_MAX);
        termination_file_remove(&files[i]);
    }
}

TEST(termination_file, file_in_the_runtime_directory_needs_a_complete_path)
{
    struct termination_file file;
    char folder[FOLDER_BYTES];
    folder_make(folder);
    leave(&file);
    const char *moved = folder_path(folder, strrchr(file.path, '/') + 1);
    assert_int_equal(rename(file.path, moved), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    assert_int_equal(find(), 1);
    /* The same directory as a relative path from /tmp. */
    assert_int_equal(chdir("/tmp"), 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", strrchr(folder, '/') + 1, 1), 0);
    assert_int_equal(find(), 0);
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    folder_remove(folder);
}

int main(void)
{
    if (sodium_init() < 0) {
        return 1;
    }
    (void)unsetenv("XDG_RUNTIME_DIR");
    snprintf(job, sizeof job, "unit-%ld", (long)getpid());
    return stories_run(NULL, NULL);
}
