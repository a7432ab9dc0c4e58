/* tests/unit/store/lossy.c: see lossy.h. */
#include "tests/unit/store/lossy.h"

struct lossy_file {
    sqlite3_file base;
    struct lossy_image *image;
};

struct lossy_disk lossy;

void *(*lossy_realloc)(void *p, size_t n) = realloc;

unsigned lossy_below(unsigned n)
{
    return (unsigned)rng_between(&lossy.rng, 0, n - 1);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void lossy_resize(struct lossy_bytes *b, size_t n)
{
    char *at = lossy_realloc(b->at, n + 1);
    assert_non_null(at);
    if (n > b->n) {
        memset(at + b->n, 0, n - b->n);
    }
    *b = (struct lossy_bytes){.at = at, .n = n};
}

static void lossy_put(struct lossy_bytes *b, size_t offset, const char *from, size_t n)
{
    if (offset + n > b->n) {
        lossy_resize(b, offset + n);
    }
    memcpy(b->at + offset, from, n);
}

static void lossy_copy(struct lossy_bytes *to, const struct lossy_bytes *from)
{
    lossy_resize(to, from->n);
    if (from->n > 0) {
        memcpy(to->at, from->at, from->n);
    }
}

static void lossy_note(struct lossy_image *image, size_t offset, const char *from, size_t n)
{
    struct lossy_op *op = lossy_realloc(NULL, sizeof(*op));
    assert_non_null(op);
    *op = (struct lossy_op){.offset = offset};
    if (from) {
        lossy_put(&op->bytes, 0, from, n);
    }
    *image->last = op;
    image->last = &op->next;
}

static void lossy_forget(struct lossy_image *image)
{
    while (image->first) {
        struct lossy_op *op = image->first;
        image->first = op->next;
        free(op->bytes.at);
        free(op);
    }
    image->last = &image->first;
}

/* --- faults ----------------------------------------------------------------------------------- */

/* Returns the error with which the coming call fails, or 0. */
static int lossy_fault(int otherwise)
{
    if (lossy.is_dead) {
        return SQLITE_IOERR;
    }
    /* Only locks return SQLITE_BUSY: SQLite would treat it as retryable in any other call. */
    if (lossy.fail_with == SQLITE_BUSY && !lossy.is_lock) {
        return 0;
    }
    lossy.calls++;
    /* A busy lock stays busy for longer than the store waits. */
    if (lossy.calls == lossy.fail_at ||
        (lossy.is_lock && lossy.fail_at > 0 && lossy.calls > lossy.fail_at)) {
        lossy.has_failed = true;
        return lossy.fail_with != 0 ? lossy.fail_with : otherwise;
    }
    return 0;
}

/* Returns false if the power fails with this write or sync. */
static bool lossy_has_power(void)
{
    if (lossy.writes_left >= 0 && lossy.writes_left-- == 0) {
        lossy.is_dead = true;
        return false;
    }
    return true;
}

void lossy_power_cycle(void)
{
    for (int i = 0; i < LOSSY_FILES; i++) {
        struct lossy_image *image = &lossy.images[i];
        /* Keeps nothing, everything up to some operation, or a random subset. */
        unsigned way = lossy_below(3);
        unsigned kept = lossy_below(20);
        for (const struct lossy_op *op = image->first; op; op = op->next) {
            if (way == 0 || (way == 1 && kept-- == 0)) {
                break;
            }
            if (!op->bytes.at) {
                if (way == 1 || lossy_below(2) == 0) {
                    lossy_resize(&image->synced, op->offset);
                }
                continue;
            }
            for (size_t at = 0; at < op->bytes.n;) {
                size_t n = LOSSY_SECTOR - (op->offset + at) % LOSSY_SECTOR;
                n = n < op->bytes.n - at ? n : op->bytes.n - at;
                if (way == 1 || lossy_below(2) == 0) {
                    lossy_put(&image->synced, op->offset + at, op->bytes.at + at, n);
                }
                at += n;
            }
        }
        lossy_forget(image);
        lossy_copy(&image->seen, &image->synced);
    }
    lossy.is_dead = false;
    lossy.writes_left = -1;
}

/* --- files ------------------------------------------------------------------------------------ */

static struct lossy_image *lossy_image(sqlite3_file *file)
{
    return ((struct lossy_file *)file)->image;
}

static int lossy_close(sqlite3_file *file)
{
    (void)file;
    return SQLITE_OK;
}

static int lossy_read(sqlite3_file *file, void *to, int n, sqlite3_int64 at)
{
    const struct lossy_bytes *seen = &lossy_image(file)->seen;
    int fault = lossy_fault(SQLITE_IOERR_READ);
    if (fault != 0) {
        return fault == SQLITE_FULL ? SQLITE_IOERR_READ : fault;
    }
    size_t have = (size_t)at < seen->n ? seen->n - (size_t)at : 0;
    if (have >= (size_t)n) {
        memcpy(to, seen->at + at, (size_t)n);
        return SQLITE_OK;
    }
    memset(to, 0, (size_t)n);
    if (have > 0) {
        memcpy(to, seen->at + at, have);
    }
    return SQLITE_IOERR_SHORT_READ;
}

static int lossy_write(sqlite3_file *file, const void *from, int n, sqlite3_int64 at)
{
    struct lossy_image *image = lossy_image(file);
    int fault = lossy_fault(SQLITE_IOERR_WRITE);
    if (fault != 0) {
        return fault;
    }
    lossy_note(image, (size_t)at, from, (size_t)n);
    lossy_put(&image->seen, (size_t)at, from, (size_t)n);
    return lossy_has_power() ? SQLITE_OK : SQLITE_IOERR_WRITE;
}

static int lossy_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct lossy_image *image = lossy_image(file);
    int fault = lossy_fault(SQLITE_IOERR_TRUNCATE);
    if (fault != 0) {
        return fault;
    }
    lossy_note(image, (size_t)size, NULL, 0);
    lossy_resize(&image->seen, (size_t)size);
    return SQLITE_OK;
}

static int lossy_sync(sqlite3_file *file, int flags)
{
    struct lossy_image *image = lossy_image(file);
    int fault = lossy_fault(SQLITE_IOERR_FSYNC);
    (void)flags;
    if (fault != 0) {
        return fault;
    }
    if (!lossy_has_power()) {
        return SQLITE_IOERR_FSYNC;
    }
    lossy_forget(image);
    lossy_copy(&image->synced, &image->seen);
    return SQLITE_OK;
}

static int lossy_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    int fault = lossy_fault(SQLITE_IOERR_FSTAT);
    *ret = (sqlite3_int64)lossy_image(file)->seen.n;
    return fault;
}

static int lossy_lock(sqlite3_file *file, int level)
{
    (void)file;
    (void)level;
    lossy.is_lock = lossy.fail_with == SQLITE_BUSY;
    int fault = lossy_fault(SQLITE_BUSY);
    lossy.is_lock = false;
    return fault;
}

static int lossy_unlock(sqlite3_file *file, int level)
{
    (void)file;
    (void)level;
    return SQLITE_OK;
}

static int lossy_check_lock(sqlite3_file *file, int *ret)
{
    (void)file;
    *ret = 0;
    return SQLITE_OK;
}

static int lossy_control(sqlite3_file *file, int op, void *argument)
{
    (void)file;
    (void)op;
    (void)argument;
    return SQLITE_NOTFOUND;
}

static int lossy_sector_size(sqlite3_file *file)
{
    (void)file;
    return LOSSY_SECTOR;
}

static int lossy_device(sqlite3_file *file)
{
    (void)file;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods lossy_methods = {.iVersion = 1,
                                                 .xClose = lossy_close,
                                                 .xRead = lossy_read,
                                                 .xWrite = lossy_write,
                                                 .xTruncate = lossy_truncate,
                                                 .xSync = lossy_sync,
                                                 .xFileSize = lossy_size,
                                                 .xLock = lossy_lock,
                                                 .xUnlock = lossy_unlock,
                                                 .xCheckReservedLock = lossy_check_lock,
                                                 .xFileControl = lossy_control,
                                                 .xSectorSize = lossy_sector_size,
                                                 .xDeviceCharacteristics = lossy_device};

/* --- file system ------------------------------------------------------------------------------ */

static struct lossy_image *lossy_find(const char *name)
{
    for (int i = 0; i < LOSSY_FILES; i++) {
        if (strcmp(lossy.images[i].name, name) == 0) {
            return &lossy.images[i];
        }
    }
    return NULL;
}

static int lossy_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                      int *ret_flags)
{
    (void)vfs;
    file->pMethods = NULL;
    int fault = lossy_fault(SQLITE_CANTOPEN);
    if (fault != 0) {
        return fault == SQLITE_FULL ? SQLITE_CANTOPEN : fault;
    }
    struct lossy_image *image = lossy_find(name);
    if (!image) {
        image = lossy_find("");
        assert_non_null(image);
        (void)snprintf(image->name, sizeof(image->name), "%s", name);
    }
    ((struct lossy_file *)file)->image = image;
    file->pMethods = &lossy_methods;
    if (ret_flags) {
        *ret_flags = flags;
    }
    return SQLITE_OK;
}

static int lossy_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
    struct lossy_image *image = lossy_find(name);
    (void)vfs;
    (void)sync_dir;
    int fault = lossy_fault(SQLITE_IOERR_DELETE);
    if (fault == 0 && image) {
        image->name[0] = '\0';
        lossy_forget(image);
        lossy_resize(&image->synced, 0);
        lossy_resize(&image->seen, 0);
    }
    return fault;
}

static int lossy_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
    (void)vfs;
    (void)flags;
    *ret = lossy_find(name) != NULL;
    return lossy_fault(SQLITE_IOERR_ACCESS);
}

static int lossy_full_name(sqlite3_vfs *vfs, const char *name, int n, char *ret)
{
    (void)vfs;
    (void)sqlite3_snprintf(n, ret, "%s", name);
    return SQLITE_OK;
}

/* Does not sleep, because a busy lock stays busy. */
static int lossy_sleep(sqlite3_vfs *vfs, int microseconds)
{
    (void)vfs;
    return microseconds;
}

void lossy_install(uint64_t seed)
{
    lossy.system = sqlite3_vfs_find(NULL);
    assert_non_null(lossy.system);
    lossy.vfs = *lossy.system;
    lossy.vfs.zName = "lossy";
    lossy.vfs.szOsFile = (int)sizeof(struct lossy_file);
    lossy.vfs.xOpen = lossy_open;
    lossy.vfs.xDelete = lossy_delete;
    lossy.vfs.xAccess = lossy_access;
    lossy.vfs.xFullPathname = lossy_full_name;
    lossy.vfs.xSleep = lossy_sleep;
    assert_int_equal(sqlite3_vfs_register(&lossy.vfs, 0), SQLITE_OK);
    rng_init(&lossy.rng, seed);
    lossy.writes_left = -1;
    for (int i = 0; i < LOSSY_FILES; i++) {
        lossy.images[i].last = &lossy.images[i].first;
    }
}

void lossy_wipe(void)
{
    for (int i = 0; i < LOSSY_FILES; i++) {
        struct lossy_image *image = &lossy.images[i];
        lossy_forget(image);
        free(image->synced.at);
        free(image->seen.at);
        *image = (struct lossy_image){.last = &image->first};
    }
    lossy.is_dead = false;
    lossy.writes_left = -1;
    lossy.calls = 0;
    lossy.fail_at = 0;
    lossy.has_failed = false;
}
