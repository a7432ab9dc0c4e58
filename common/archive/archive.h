/* common/archive/archive.h: packs a job's files into a bundle and unpacks it, as functions on byte
 * buffers without I/O.
 *
 * A bundle is a tar file in one Zstandard frame, in a canonical form, so that equal files give
 * equal bytes and a bundle cannot contain anything but regular files. Form: ustar headers
 * (POSIX.1-1988) of regular files, mode 0644 or 0755, no times and owners, sorted bytewise by name;
 * names of up to 255 bytes relative to the directory; then two blocks of zeros. The reader rebuilds
 * each header and requires the same 512 bytes. */
#ifndef TFE_COMMON_ARCHIVE_ARCHIVE_H
#define TFE_COMMON_ARCHIVE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/text/reason.h"

#define ARCHIVE_NAME_MAX 255u
#define ARCHIVE_FILES_MAX 20000u
/* Maximum bytes of all files together: sixteen times the maximum size of a bundle. */
#define ARCHIVE_UNPACKED_MAX (UINT64_C(1) << 30)
/* Maximum compression ratio beyond the first 16 MiB, against decompression bombs. Text has a ratio
 * of 10, logs of 50. */
#define ARCHIVE_RATIO_MAX 500u
#define ARCHIVE_RATIO_FREE (UINT64_C(16) << 20)

/* True if a file in a bundle may have this name: "a/b", but nothing absolute, no "..", no control
 * characters. */
bool archive_name_is_valid(const char *name);

/* --- packing ---------------------------------------------------------------------------------- */

struct archive_packer;

/* Makes a packer. write receives packed bytes; an error from it ends the packing and is returned,
 * with its reason. Returns 0 or TFE_ENOMEM. */
int archive_packer_new(int (*write)(void *ctx, const uint8_t *bytes, size_t n,
                                    struct tfe_reason *reason),
                       void *ctx, struct archive_packer **ret) TFE_MUST_CHECK;

/* Begins the next file, whose `size` bytes follow by archive_pack. Returns TFE_EINVAL if the name
 * is invalid or not after the previous one, TFE_ETOOBIG if the name or the bundle is too large. */
int archive_pack_file(struct archive_packer *p, const char *name, uint64_t size, bool is_executable,
                      struct tfe_reason *reason) TFE_MUST_CHECK;
/* Packs bytes of the current file. Returns TFE_EINVAL if they exceed its size. */
int archive_pack(struct archive_packer *p, const void *bytes, size_t n,
                 struct tfe_reason *reason) TFE_MUST_CHECK;
/* Ends the bundle. Returns TFE_EINVAL if bytes of the last file are missing, TFE_ETOOBIG if its
 * compression ratio exceeds the limit. */
int archive_pack_end(struct archive_packer *p, struct tfe_reason *reason) TFE_MUST_CHECK;
/* Frees the packer. NULL is allowed. */
void archive_packer_free(struct archive_packer *p);

/* --- unpacking -------------------------------------------------------------------------------- */

struct archive_reader;

/* Callbacks that receive unpacked files. An error from one ends the unpacking and is returned, with
 * its reason. */
struct archive_writer {
    /* Begins the next file, whose `size` bytes follow. The name is valid and after the previous
     * one. */
    int (*file)(void *ctx, const char *name, uint64_t size, bool is_executable,
                struct tfe_reason *reason);
    int (*bytes)(void *ctx, const uint8_t *bytes, size_t n, struct tfe_reason *reason);
    void *ctx;
};

/* Makes a reader for a bundle of `packed` bytes, which limits its unpacked size. Copies sink.
 * Returns 0 or TFE_ENOMEM. */
int archive_reader_new(const struct archive_writer *writer, uint64_t packed,
                       struct archive_reader **ret) TFE_MUST_CHECK;
/* Reads the next packed bytes, in pieces of any length. Returns TFE_EPROTO if they are not a bundle
 * in canonical form, TFE_ETOOBIG if it unpacks to more than the limit, or TFE_ENOMEM. After an
 * error the reader must not be used. */
int archive_read(struct archive_reader *r, const uint8_t *bytes, size_t n,
                 struct tfe_reason *reason) TFE_MUST_CHECK;
/* Ends the input. Returns TFE_EPROTO if the bundle is incomplete. */
int archive_read_end(struct archive_reader *r, struct tfe_reason *reason) TFE_MUST_CHECK;
/* Frees the reader. NULL is allowed. */
void archive_reader_free(struct archive_reader *r);

#endif
