/* agent/output/log_read.c: implementation of log_read.h. */
#include "agent/output/log_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/remove_tree.h"
#include "common/base/fd.h"

/* Maximum number of files of an epoch: two per trainer, rotated ones, and those
 * of an earlier agent. */
#define FILES_MAX 1024

/* Distance from the end of a file within which last lines are counted. */
#define TAIL_REACH ((off_t)16 * 1024 * 1024)

struct log_found {
    uint32_t rank;
    struct log_name parts;
    char name[LOG_NAME_MAX];
    off_t from, to;
};

struct log_reader *log_reader_new(void)
{
    struct log_reader *reader = calloc(1, sizeof(*reader));
    if (reader && !(reader->bytes = malloc(LOG_READ_BYTES))) {
        free(reader);
        return NULL;
    }
    if (reader) {
        reader->folder = -1;
    }
    return reader;
}

void log_reader_free(struct log_reader *reader)
{
    if (reader) {
        fd_close(&reader->folder);
        free(reader->files);
        free(reader->names);
        free(reader->bytes);
        free(reader);
    }
}

/* --- selection of files --- */

/* Returns true if the file belongs to one of this agent's trainers, and its rank: other agents may
 * use the same --log-dir. For an epoch before this agent started, any rank does. */
static bool is_own(const struct log_reader *reader, const struct log_name *parts,
                   uint32_t *ret_rank)
{
    *ret_rank = parts->index;
    for (size_t i = 0; i < reader->n_names; i++) {
        if (strcmp(parts->owner, reader->names[i].owner) == 0) {
            *ret_rank = reader->names[i].rank;
            return true;
        }
    }
    return reader->n_names == 0 && strncmp(parts->owner, "rank-", strlen("rank-")) == 0;
}

static int compare(const void *va, const void *vb)
{
    const struct log_found *a = va;
    const struct log_found *b = vb;
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    if (a->parts.stream != b->parts.stream) {
        return a->parts.stream < b->parts.stream ? -1 : 1;
    }
    if (a->parts.again != b->parts.again) {
        return a->parts.again < b->parts.again ? -1 : 1;
    }
    return (int)b->parts.is_old - (int)a->parts.is_old;
}

/* Opens the directory of the epoch in the newest run that has it. Returns -1 if there is none. */
static int open_folder(const struct log_reader *reader, const char *root, const struct tfe_id *job)
{
    char path[LOG_FOLDER_MAX];
    int folder = -1;
    uint64_t newest = 0;
    int above = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *runs = above >= 0 ? entries_open(above, job->text) : NULL;
    for (const struct dirent *entry; runs && (entry = readdir(runs));) {
        uint64_t run;
        if (!log_folder_parse(entry->d_name, "run-", &run) || run < newest) {
            continue;
        }
        (void)snprintf(path, sizeof(path), "run-%" PRIu64 "/epoch-%" PRIu64, run,
                       reader->spec.epoch);
        int found = openat(dirfd(runs), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (found >= 0) {
            fd_close(&folder);
            folder = found;
            newest = run;
        }
    }
    if (runs) {
        (void)closedir(runs);
    }
    fd_close(&above);
    return folder;
}

static int open_file(const struct log_reader *reader, const struct log_found *file)
{
    struct stat st;
    int fd = openat(reader->folder, file->name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        fd_close(&fd);
    }
    return fd;
}

/* Returns the offset where the last *lines lines begin and counts them down; reads at
 * most TAIL_REACH bytes. */
static off_t tail_of(int fd, off_t end, uint32_t *lines, char *buf)
{
    off_t at = end;
    off_t min = end > TAIL_REACH ? end - TAIL_REACH : 0;
    bool is_last = true; /* the newline at the end of the file terminates the last line itself */
    while (at > min && *lines > 0) {
        size_t n = at - min > (off_t)LOG_READ_BYTES ? LOG_READ_BYTES : (size_t)(at - min);
        ssize_t got = pread(fd, buf, n, at - (off_t)n);
        if (got != (ssize_t)n) {
            return at;
        }
        for (size_t i = n; i > 0; i--) {
            if (buf[i - 1] == '\n' && !is_last && --*lines == 0) {
                return at - (off_t)(n - i);
            }
            is_last = false;
        }
        at -= (off_t)n;
    }
    if (*lines > 0 && end > 0) {
        --*lines; /* the first line has no newline before it */
    }
    return at;
}

static bool is_later(const struct stat *st, struct tfe_wall since)
{
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000 >= since.ms;
}

static void measure(struct log_reader *reader)
{
    uint32_t left = reader->spec.lines;
    for (size_t i = reader->n_files; i-- > 0;) {
        struct log_found *file = &reader->files[i];
        struct stat st;
        bool is_next = i + 1 == reader->n_files || file[1].rank != file->rank ||
                       file[1].parts.stream != file->parts.stream;
        left = is_next ? reader->spec.lines : left;
        int fd = open_file(reader, file);
        if (fd >= 0 && fstat(fd, &st) == 0 && is_later(&st, reader->spec.since)) {
            file->to = st.st_size;
            file->from =
                reader->spec.lines == MSG_UNSET ? 0 : tail_of(fd, st.st_size, &left, reader->bytes);
        }
        fd_close(&fd);
    }
}

static void find_files(struct log_reader *reader, const char *root, const struct tfe_id *job)
{
    struct log_found found = {.rank = 0};
    reader->is_open = true;
    reader->folder = open_folder(reader, root, job);
    reader->files = calloc(FILES_MAX, sizeof(*reader->files));
    DIR *entries = reader->folder >= 0 ? entries_open(reader->folder, ".") : NULL;
    for (const struct dirent *entry; reader->files && entries && (entry = readdir(entries));) {
        size_t n = strlen(entry->d_name);
        if (reader->n_files < FILES_MAX && n < sizeof(found.name) &&
            log_name_parse(entry->d_name, &found.parts) &&
            is_own(reader, &found.parts, &found.rank) &&
            (!reader->spec.has_rank || found.rank == reader->spec.rank)) {
            memcpy(found.name, entry->d_name, n + 1);
            reader->files[reader->n_files++] = found;
        }
    }
    if (entries) {
        (void)closedir(entries);
    }
    if (reader->files && reader->n_files > 0) {
        qsort(reader->files, reader->n_files, sizeof(*reader->files), compare);
        measure(reader);
    }
}

/* --- reading --- */

/* Returns the number of bytes that form complete lines; the rest is read again, or belongs to
 * an unfinished line. */
static size_t whole(const struct log_reader *reader, const struct log_found *file, size_t n)
{
    const char *end = memrchr(reader->bytes, '\n', n);
    bool is_end = file->from + (off_t)n >= file->to;
    if (is_end && !reader->is_live) {
        return n;
    }
    return end ? (size_t)(end - reader->bytes) + 1 : is_end ? 0 : n;
}

void log_reader_step(struct log_reader *reader, const char *root, const struct tfe_id *job)
{
    if (!reader->is_open) {
        find_files(reader, root, job);
    }
    reader->n = 0;
    for (; reader->at < reader->n_files && reader->n == 0; reader->at += reader->n == 0) {
        struct log_found *file = &reader->files[reader->at];
        off_t left = file->to - file->from;
        size_t n = left < (off_t)LOG_READ_BYTES ? (size_t)left : LOG_READ_BYTES;
        int fd = n > 0 ? open_file(reader, file) : -1;
        ssize_t got = fd >= 0 ? pread(fd, reader->bytes, n, file->from) : 0;
        fd_close(&fd);
        if (got > 0) {
            reader->n = whole(reader, file, (size_t)got);
            file->from += (off_t)reader->n;
            reader->of = (struct output_source){reader->spec.epoch, file->rank, file->parts.stream};
        }
    }
    reader->done = reader->n == 0;
}
