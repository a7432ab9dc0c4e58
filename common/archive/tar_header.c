/* common/archive/tar_header.c: encodes and decodes ustar headers. */
#include "common/archive/tar_header.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Header layout of POSIX, "ustar Interchange Format"; numbers are octal digits. */
struct ustar {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char link[100];
    char magic[6];
    char version[2];
    char user[32];
    char group[32];
    char major[8];
    char minor[8];
    char prefix[155];
    char rest[12];
};
_Static_assert(sizeof(struct ustar) == TAR_BLOCK, "a block");

/* Returns the index of the '/' at which a long name is split into prefix and name, or 0 if it needs
 * no split or cannot be split. */
static size_t split_index(const char *name, size_t n)
{
    const size_t space = sizeof(((struct ustar *)0)->name);
    const size_t max = sizeof(((struct ustar *)0)->prefix);
    size_t at = 1;
    if (n <= space) {
        return 0;
    }
    while (at < n && (name[at] != '/' || n - at - 1 > space)) {
        at++;
    }
    return at < n && at <= max ? at : 0;
}

bool tar_header_make(const struct tar_file *file, uint8_t ret[TAR_BLOCK])
{
    struct ustar u = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    const size_t n = strlen(file->name);
    const size_t at = split_index(file->name, n);
    const size_t rest = at > 0 ? at + 1 : 0;
    if (n - rest > sizeof(u.name) || file->size > ARCHIVE_UNPACKED_MAX) {
        return false;
    }
    memcpy(u.prefix, file->name, at);
    memcpy(u.name, file->name + rest, n - rest);
    (void)snprintf(u.mode, sizeof(u.mode), "%07o", file->is_executable ? 0755u : 0644u);
    (void)snprintf(u.uid, sizeof(u.uid), "%07o", 0u);
    (void)snprintf(u.gid, sizeof(u.gid), "%07o", 0u);
    (void)snprintf(u.size, sizeof(u.size), "%011o", (unsigned)file->size);
    (void)snprintf(u.mtime, sizeof(u.mtime), "%011o", 0u);
    (void)snprintf(u.major, sizeof(u.major), "%07o", 0u);
    (void)snprintf(u.minor, sizeof(u.minor), "%07o", 0u);
    memset(u.checksum, ' ', sizeof(u.checksum));
    memcpy(ret, &u, sizeof(u));
    unsigned sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        sum += ret[i];
    }
    (void)snprintf(u.checksum, sizeof(u.checksum) - 1, "%06o",
                   sum); /* terminated by NUL and a space */
    memcpy(ret, &u, sizeof(u));
    return true;
}

/* Parses octal digits leniently; the caller compares the rebuilt header. */
static uint64_t octal(const char *digits, size_t n)
{
    uint64_t number = 0;
    for (size_t i = 0; i < n && digits[i] >= '0' && digits[i] <= '7'; i++) {
        number = number * 8 + (uint64_t)(digits[i] - '0');
    }
    return number;
}

bool tar_header_read(const uint8_t block[TAR_BLOCK], struct tar_file *ret)
{
    struct ustar u;
    uint8_t made[TAR_BLOCK];
    memcpy(&u, block, sizeof(u));
    const size_t n_prefix = strnlen(u.prefix, sizeof(u.prefix));
    const size_t n_name = strnlen(u.name, sizeof(u.name));
    if (n_prefix + n_name + 1 > ARCHIVE_NAME_MAX) {
        return false;
    }
    (void)snprintf(ret->name, sizeof(ret->name), "%.*s%s%.*s", (int)n_prefix, u.prefix,
                   n_prefix > 0 ? "/" : "", (int)n_name, u.name);
    ret->size = octal(u.size, sizeof(u.size));
    ret->is_executable = u.mode[4] == '7';
    return tar_header_make(ret, made) && memcmp(made, block, TAR_BLOCK) == 0;
}
