/* common/archive/archive.c: validates file names, and packs bundles. */
#include "common/archive/archive.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/archive/tar_header.h"

/* Compression level. Code compresses to about 30 % at any level; higher levels gain little and take
 * long. */
#define LEVEL 6
#define OUT_BYTES (64u * 1024)

static const uint8_t zeros[2 * TAR_BLOCK];

bool archive_name_is_valid(const char *name)
{
    const size_t n = strlen(name);
    if (n == 0 || n > ARCHIVE_NAME_MAX) {
        return false;
    }
    for (const char *at = name; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) {
            return false;
        }
    }
    for (const char *part = name;;) {
        const size_t length = strcspn(part, "/");
        if (length == 0 || (length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.')) {
            return false;
        }
        if (part[length] == '\0') {
            return true;
        }
        part += length + 1;
    }
}

struct archive_packer {
    int (*write)(void *ctx, const uint8_t *bytes, size_t n, struct tfe_reason *reason);
    void *ctx;
    ZSTD_CCtx *zstd;
    struct tar_file file; /* file being packed, or the last one */
    uint64_t left;        /* bytes of the current file that are still missing */
    uint64_t unpacked, packed;
    uint32_t n_files;
    uint8_t out[OUT_BYTES];
};

int archive_packer_new(int (*write)(void *ctx, const uint8_t *bytes, size_t n,
                                    struct tfe_reason *reason),
                       void *ctx, struct archive_packer **ret)
{
    struct archive_packer *p = calloc(1, sizeof(*p));
    if (!p) {
        return TFE_ENOMEM;
    }
    p->write = write;
    p->ctx = ctx;
    p->zstd = ZSTD_createCCtx();
    if (!p->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_checksumFlag, 1))) {
        archive_packer_free(p);
        return TFE_ENOMEM;
    }
    *ret = p;
    return 0;
}

static int put(struct archive_packer *p, const void *bytes, size_t n, bool is_last,
               struct tfe_reason *reason)
{
    ZSTD_inBuffer in = {.src = bytes, .size = n};
    size_t more = 1;
    int rc = 0;
    while (rc == 0 && (in.pos < in.size || (is_last && more > 0))) {
        ZSTD_outBuffer out = {.dst = p->out, .size = sizeof(p->out)};
        more = ZSTD_compressStream2(p->zstd, &out, &in, is_last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(more)) {
            reason_set(reason, "out of memory");
            return TFE_ENOMEM;
        }
        p->packed += out.pos;
        rc = out.pos > 0 ? p->write(p->ctx, p->out, out.pos, reason) : 0;
    }
    return rc;
}

int archive_pack_file(struct archive_packer *p, const char *name, uint64_t size, bool is_executable,
                      struct tfe_reason *reason)
{
    struct tar_file file = {.size = size, .is_executable = is_executable};
    uint8_t header[TAR_BLOCK];
    if (!archive_name_is_valid(name) || p->left > 0 ||
        (p->n_files > 0 && strcmp(p->file.name, name) >= 0)) {
        reason_set(reason,
                   "%.200s: invalid file name (a bundle allows at most %u bytes and no control "
                   "characters)",
                   name, ARCHIVE_NAME_MAX);
        return TFE_EINVAL;
    }
    memcpy(file.name, name, strlen(name) + 1);
    if (size > ARCHIVE_UNPACKED_MAX - p->unpacked || p->n_files == ARCHIVE_FILES_MAX) {
        reason_set(reason, "more than %u files, or more than 1 GiB in total", ARCHIVE_FILES_MAX);
        return TFE_ETOOBIG;
    }
    if (!tar_header_make(&file, header)) {
        reason_set(reason, "%.200s: the name is too long for a bundle", name);
        return TFE_ETOOBIG;
    }
    p->file = file;
    p->left = size;
    p->unpacked += size;
    p->n_files++;
    return put(p, header, sizeof(header), false, reason);
}

int archive_pack(struct archive_packer *p, const void *bytes, size_t n, struct tfe_reason *reason)
{
    if (n > p->left) {
        reason_set(reason, "%.200s: the file grew while it was packed", p->file.name);
        return TFE_EINVAL;
    }
    p->left -= n;
    int rc = put(p, bytes, n, false, reason);
    return rc == 0 && n > 0 && p->left == 0
               ? put(p, zeros, tar_padding(p->file.size), false, reason)
               : rc;
}

int archive_pack_end(struct archive_packer *p, struct tfe_reason *reason)
{
    if (p->left > 0) {
        reason_set(reason, "%.200s: the file shrank while it was packed", p->file.name);
        return TFE_EINVAL;
    }
    int rc = put(p, zeros, sizeof(zeros), true, reason);
    if (rc == 0 && p->unpacked > ARCHIVE_RATIO_FREE &&
        p->unpacked / ARCHIVE_RATIO_MAX > p->packed) {
        reason_set(
            reason,
            "the files compress to less than 1/%u of their size (nodes reject such a bundle)",
            ARCHIVE_RATIO_MAX);
        rc = TFE_ETOOBIG;
    }
    return rc;
}

void archive_packer_free(struct archive_packer *p)
{
    if (p) {
        (void)ZSTD_freeCCtx(p->zstd);
        free(p);
    }
}
