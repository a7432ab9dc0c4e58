/* common/archive/archive_read.c: unpacks untrusted bundles. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/archive/archive.h"
#include "common/archive/tar_header.h"

/* Maximum window of the frame. The packer's level needs 2 MiB; a frame that needs more is not
 * ours. */
#define WINDOW_LOG_MAX 23
#define OUT_BYTES (64u * 1024)

struct archive_reader {
    struct archive_writer writer;
    ZSTD_DCtx *zstd;
    bool is_over;     /* the Zstandard frame has ended */
    uint64_t packed;  /* size of the bundle in bytes */
    uint64_t written; /* sizes of all files begun so far */
    uint32_t n_files;
    struct tar_file file; /* file being read, or the last one */
    uint64_t left;        /* bytes of the current file that are still missing */
    uint32_t padding;     /* padding bytes expected after the current file */
    uint32_t n_ends;      /* blocks of zeros read at the end */
    size_t n_block;       /* bytes of the next header read so far */
    uint8_t block[TAR_BLOCK];
    uint8_t out[OUT_BYTES];
};

int archive_reader_new(const struct archive_writer *writer, uint64_t packed,
                       struct archive_reader **ret)
{
    struct archive_reader *r = calloc(1, sizeof(*r));
    if (!r) {
        return TFE_ENOMEM;
    }
    r->writer = *writer;
    r->packed = packed;
    r->zstd = ZSTD_createDCtx();
    if (!r->zstd ||
        ZSTD_isError(ZSTD_DCtx_setParameter(r->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
        archive_reader_free(r);
        return TFE_ENOMEM;
    }
    *ret = r;
    return 0;
}

static int malformed(struct tfe_reason *reason, const char *what)
{
    reason_set(reason, "not a bundle: %s", what);
    return TFE_EPROTO;
}

static bool is_zeros(const uint8_t *bytes, size_t n)
{
    size_t i = 0;
    while (i < n && bytes[i] == 0) {
        i++;
    }
    return i == n;
}

static int handle_header(struct archive_reader *r, struct tfe_reason *reason)
{
    struct tar_file file;
    r->n_block = 0;
    if (is_zeros(r->block, TAR_BLOCK)) {
        return ++r->n_ends > 2 ? malformed(reason, "data after the end") : 0;
    }
    if (r->n_ends > 0 || !tar_header_read(r->block, &file)) {
        return malformed(reason,
                         "an entry is not a regular file, or not in the form that tfe-ctl writes");
    }
    if (!archive_name_is_valid(file.name) ||
        (r->n_files > 0 && strcmp(r->file.name, file.name) >= 0)) {
        return malformed(reason, "a file name leaves the directory, or is out of order");
    }
    if (r->n_files == ARCHIVE_FILES_MAX || file.size > ARCHIVE_UNPACKED_MAX - r->written) {
        reason_set(reason, "the bundle has more than %u files, or more than 1 GiB in total",
                   ARCHIVE_FILES_MAX);
        return TFE_ETOOBIG;
    }
    r->file = file;
    r->n_files++;
    r->written += file.size;
    r->left = file.size;
    r->padding = tar_padding(file.size);
    return r->writer.file(r->writer.ctx, file.name, file.size, file.is_executable, reason);
}

/* Processes unpacked bytes. */
static int handle_bytes(struct archive_reader *r, const uint8_t *bytes, size_t n,
                        struct tfe_reason *reason)
{
    int rc = 0;
    while (rc == 0 && n > 0) {
        size_t some = n;
        if (r->left > 0) {
            some = some < r->left ? some : (size_t)r->left;
            r->left -= some;
            rc = r->writer.bytes(r->writer.ctx, bytes, some, reason);
        } else if (r->padding > 0) {
            some = some < r->padding ? some : r->padding;
            r->padding -= (uint32_t)some;
            rc = is_zeros(bytes, some) ? 0 : malformed(reason, "data between two files");
        } else {
            some = some < TAR_BLOCK - r->n_block ? some : TAR_BLOCK - r->n_block;
            memcpy(r->block + r->n_block, bytes, some);
            r->n_block += some;
            rc = r->n_block == TAR_BLOCK ? handle_header(r, reason) : 0;
        }
        bytes += some;
        n -= some;
    }
    return rc;
}

int archive_read(struct archive_reader *r, const uint8_t *bytes, size_t n,
                 struct tfe_reason *reason)
{
    ZSTD_inBuffer in = {.src = bytes, .size = n};
    bool has_more = n > 0; /* the decompressor may hold further output */
    int rc = 0;
    while (rc == 0 && has_more) {
        if (r->is_over) {
            return malformed(reason, "data after the end");
        }
        ZSTD_outBuffer out = {.dst = r->out, .size = sizeof(r->out)};
        const size_t left = ZSTD_decompressStream(r->zstd, &out, &in);
        if (ZSTD_isError(left)) {
            return malformed(reason, ZSTD_getErrorName(left));
        }
        r->is_over = left == 0;
        rc = handle_bytes(r, r->out, out.pos, reason);
        has_more = in.pos < in.size || (out.pos == out.size && !r->is_over);
        if (rc == 0 && r->written > ARCHIVE_RATIO_FREE &&
            (r->written - r->left) / ARCHIVE_RATIO_MAX > r->packed) {
            reason_set(reason, "the bundle unpacks to more than %u times its size",
                       ARCHIVE_RATIO_MAX);
            rc = TFE_ETOOBIG;
        }
    }
    return rc;
}

int archive_read_end(struct archive_reader *r, struct tfe_reason *reason)
{
    return r->is_over && r->n_ends == 2 && r->n_block == 0 ? 0 : malformed(reason, "truncated");
}

void archive_reader_free(struct archive_reader *r)
{
    if (r) {
        (void)ZSTD_freeDCtx(r->zstd);
        free(r);
    }
}
