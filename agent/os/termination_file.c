/* agent/os/termination_file.c: implementation of termination_file.h. */
#include "agent/os/termination_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/private_dir.h"

#define NAME_PREFIX "tfe-dead-"
#define NAME_DIGITS 16
/* Far longer than any fence. */
#define OLD_S (24 * 60 * 60)

void termination_file_plan(struct termination_file *file, const struct tfe_id *hash,
                           const char *certificate)
{
    const char *base;
    file->path[0] = '\0';
    for (int i = 0; (base = private_dir_base(i)) && !file->path[0]; i++) {
        int n = snprintf(file->path, sizeof(file->path), "%s/" NAME_PREFIX "%.*s", base,
                         NAME_DIGITS, hash->text);
        if (access(base, W_OK | X_OK) != 0 || n < 0 || (size_t)n >= sizeof(file->path)) {
            file->path[0] = '\0';
        }
    }
    (void)snprintf(file->line, sizeof(file->line), PROOF_LINE_PREFIX "%s\n", certificate);
}

void termination_file_write(const struct termination_file *file, const char *job)
{
    char text[TERMINATION_FILE_TEXT_MAX];
    int n = snprintf(text, sizeof(text), "%sjob %s\n", file->line, job);
    int fd = file->path[0]
                 ? open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
                 : -1;
    if (fd >= 0) {
        (void)!write(fd, text, (size_t)n); /* readers reject a partial file */
        close(fd);
    }
}

void termination_file_remove(const struct termination_file *file)
{
    if (file->path[0]) {
        (void)unlink(file->path);
    }
}

/* --- existing files --- */

struct found {
    char certificate[PROOF_CHARS + 1];
    time_t at;
};

/* Reads one file. Returns false if it was not written by a guard of this user, is incomplete, or
 * belongs to another job. */
static bool read_one(int dir, const char *name, const char *job, struct found *ret)
{
    char text[TERMINATION_FILE_TEXT_MAX + 1];
    char expected[sizeof("job \n") + TFE_ID_MAX];
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool is_ours = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                   (st.st_mode & 07777) == 0600;
    ssize_t n = is_ours ? read(fd, text, sizeof(text) - 1) : -1;
    close(fd);
    if (n < 0) {
        return false;
    }
    text[n] = '\0';
    ret->at = st.st_mtime;
    if (ret->at < time(NULL) - OLD_S) {
        (void)unlinkat(dir, name, 0);
        return false;
    }
    (void)snprintf(expected, sizeof(expected), "job %s\n", job);
    return proof_read_line(text, (size_t)n, ret->certificate) &&
           strcmp(text + PROOF_LINE_MAX - 1, expected) == 0;
}

static bool has_our_name(const char *name)
{
    const size_t n = sizeof(NAME_PREFIX) - 1;
    return strncmp(name, NAME_PREFIX, n) == 0 && strlen(name) == n + NAME_DIGITS;
}

/* Newest files found so far. */
struct all_found {
    struct found v[TERMINATION_FILES_MAX];
    size_t n;
};

static void keep_newest(struct all_found *all, const struct found *one)
{
    if (all->n < TERMINATION_FILES_MAX) {
        all->v[all->n++] = *one;
        return;
    }
    size_t oldest = 0;
    for (size_t i = 1; i < all->n; i++) {
        oldest = all->v[i].at < all->v[oldest].at ? i : oldest;
    }
    if (all->v[oldest].at < one->at) {
        all->v[oldest] = *one;
    }
}

size_t termination_files_find(const char *job, char ret[TERMINATION_FILES_MAX][PROOF_CHARS + 1])
{
    struct all_found all = {.n = 0};
    for (int i = 0; private_dir_base(i); i++) {
        DIR *entries = opendir(private_dir_base(i));
        const struct dirent *entry;
        while (entries && (entry = readdir(entries))) {
            struct found one;
            if (has_our_name(entry->d_name) && read_one(dirfd(entries), entry->d_name, job, &one)) {
                keep_newest(&all, &one);
            }
        }
        if (entries) {
            closedir(entries);
        }
    }
    for (size_t i = 0; i < all.n; i++) {
        memcpy(ret[i], all.v[i].certificate, sizeof(all.v[i].certificate));
    }
    return all.n;
}
