/* tests/crash/faulty_disk.c: preloaded into a server, puts a disk of our choice under its SQLite: a
 * shim around the system's VFS, made the default one before main begins.
 *
 * FAULTY_DISK_KILL_AT=N   the process kills itself in the middle of its Nth write or sync
 * FAULTY_DISK_CONTROL=F   what the file F says holds from the next write or sync on:
 *                         "delay MS": every sync takes so much longer; "hold": it ends when F says
 * something else; a byte more in F.met says that such a one has begun; "full": no write succeeds */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real; /* right behind this */
};

static sqlite3_vfs *system_vfs;
static sqlite3_vfs faulty_vfs;
static long kill_at;
static atomic_long operations;
static const char *control;

static sqlite3_file *real(sqlite3_file *file)
{
    return ((struct faulty_file *)file)->real;
}

static void maybe_die(void)
{
    if (kill_at > 0 && atomic_fetch_add(&operations, 1) + 1 == kill_at) {
        (void)raise(SIGKILL); /* which a sandboxed server may still do */
        (void)pause();
    }
}

/* Reads the control file into word and number. */
static bool told(const char *word, long *ret_number)
{
    char text[64] = "";
    int fd = control ? open(control, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    size_t length = strlen(word);
    if (n <= 0 || strncmp(text, word, length) != 0) {
        return false;
    }
    *ret_number = strtol(text + length, NULL, 10);
    return true;
}

/* A byte more in the file beside the control file. */
static void say_met(void)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s.met", control) < (int)sizeof(path)) {
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, "x", 1) != 1 || close(fd)) {
            (void)fputs("faulty_disk: cannot say what it does\n", stderr);
        }
    }
}

static int file_close(sqlite3_file *file)
{
    return real(file)->pMethods->xClose(real(file));
}

static int file_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
    return real(file)->pMethods->xRead(real(file), to, n, at);
}

static int file_write(sqlite3_file *file, const void *from, int n, sqlite3_int64 at)
{
    long ignored;
    if (told("full", &ignored)) {
        return SQLITE_FULL;
    }
    if (kill_at > 0 && atomic_load(&operations) + 1 == kill_at && n > 1) {
        (void)real(file)->pMethods->xWrite(real(file), from, n / 2, at); /* torn */
    }
    maybe_die();
    return real(file)->pMethods->xWrite(real(file), from, n, at);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return real(file)->pMethods->xTruncate(real(file), size);
}

static int file_sync(sqlite3_file *file, int flags)
{
    long delay_ms;
    maybe_die();
    if (told("delay", &delay_ms)) {
        say_met();
        (void)usleep((useconds_t)delay_ms * 1000);
    }
    if (told("hold", &delay_ms)) {
        say_met();
        while (told("hold", &delay_ms)) {
            (void)usleep(5000);
        }
    }
    return real(file)->pMethods->xSync(real(file), flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    return real(file)->pMethods->xFileSize(real(file), ret);
}

static int file_lock(sqlite3_file *file, int level)
{
    return real(file)->pMethods->xLock(real(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    return real(file)->pMethods->xUnlock(real(file), level);
}

static int file_check(sqlite3_file *file, int *ret)
{
    return real(file)->pMethods->xCheckReservedLock(real(file), ret);
}

static int file_control(sqlite3_file *file, int op, void *argument)
{
    return real(file)->pMethods->xFileControl(real(file), op, argument);
}

static int file_sector(sqlite3_file *file)
{
    return real(file)->pMethods->xSectorSize(real(file));
}

static int file_device(sqlite3_file *file)
{
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
}

/* Version 1: no shared memory, which a store that locks its file for life does without. */
static const sqlite3_io_methods methods = {.iVersion = 1,
                                           .xClose = file_close,
                                           .xRead = file_read,
                                           .xWrite = file_write,
                                           .xTruncate = file_truncate,
                                           .xSync = file_sync,
                                           .xFileSize = file_size,
                                           .xLock = file_lock,
                                           .xUnlock = file_unlock,
                                           .xCheckReservedLock = file_check,
                                           .xFileControl = file_control,
                                           .xSectorSize = file_sector,
                                           .xDeviceCharacteristics = file_device};

static int open_file(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                     int *ret_flags)
{
    struct faulty_file *faulty = (struct faulty_file *)file;
    (void)vfs;
    faulty->real = (sqlite3_file *)(faulty + 1);
    int rc = system_vfs->xOpen(system_vfs, name, faulty->real, flags, ret_flags);
    faulty->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
    return rc;
}

__attribute__((constructor)) static void put_in_place(void)
{
    const char *at = getenv("FAULTY_DISK_KILL_AT");
    kill_at = at ? strtol(at, NULL, 10) : 0;
    control = getenv("FAULTY_DISK_CONTROL");
    system_vfs = sqlite3_vfs_find(NULL);
    if (!system_vfs) {
        (void)fputs("faulty_disk: no VFS\n", stderr);
        _exit(9);
    }
    faulty_vfs = *system_vfs; /* its other functions do not look at the vfs they are called with */
    faulty_vfs.zName = "faulty";
    faulty_vfs.szOsFile = system_vfs->szOsFile + (int)sizeof(struct faulty_file);
    faulty_vfs.xOpen = open_file;
    if (sqlite3_vfs_register(&faulty_vfs, 1) != SQLITE_OK) {
        _exit(9);
    }
}
