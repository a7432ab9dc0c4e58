/* common/archive/archive.h: a job's files as one run of bytes, a bundle: a tar file within one
 * frame of Zstandard, of which there is one form only, so that the same files are the same bytes,
 * and nothing but regular files can be in it. No files, no sockets.
 *
 * Of the form: ustar headers (POSIX.1-1988) of regular files, mode 0644 or 0755, no time, no owner,
 * in the order of their names' bytes; names of up to 255 bytes below the directory; two blocks of
 * zeros, and the end. What reads it makes each header anew and wants those 512 bytes. */
#ifndef TFE_COMMON_ARCHIVE_ARCHIVE_H
#define TFE_COMMON_ARCHIVE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/reason.h"

#define ARCHIVE_NAME_MAX 255u
#define ARCHIVE_FILES_MAX 20000u
/* Bytes of all files together: sixteen times what a bundle may be packed. */
#define ARCHIVE_UNPACKED_MAX (UINT64_C(1) << 30)
/* … and, beyond the first 16 MiB, so many times what it is packed: text gives 10, logs 50. */
#define ARCHIVE_RATIO_MAX 500u
#define ARCHIVE_RATIO_FREE (UINT64_C(16) << 20)

/* Whether a file may be called that: "a/b"; nothing absolute, no "..", no control character. */
bool archive_name_is_sound(const char *name);

/* --- packing ---------------------------------------------------------------------------------- */

struct archive_packer;

/* write takes packed bytes; what it returns ends the packing, why is its own then. TFE_ENOMEM. */
int archive_packer_new(int (*write)(void *ctx, const uint8_t *bytes, size_t n,
                                    struct tfe_reason *reason),
                       void *ctx, struct archive_packer **ret) TFE_MUST_CHECK;

/* The next file, whose size bytes follow by archive_pack. TFE_EINVAL: its name is not sound, or
 * does not come behind the one before; TFE_ETOOBIG: the name, or all together, is too much. */
int archive_pack_file(struct archive_packer *p, const char *name, uint64_t size, bool is_executable,
                      struct tfe_reason *reason) TFE_MUST_CHECK;
/* TFE_EINVAL: more than the file's size. */
int archive_pack(struct archive_packer *p, const void *bytes, size_t n,
                 struct tfe_reason *reason) TFE_MUST_CHECK;
/* Behind the last file. TFE_EINVAL: that one's bytes are not all there; TFE_ETOOBIG: nobody would
 * unpack it. */
int archive_pack_end(struct archive_packer *p, struct tfe_reason *reason) TFE_MUST_CHECK;
/* NULL is allowed. */
void archive_packer_free(struct archive_packer *p);

/* --- unpacking -------------------------------------------------------------------------------- */

struct archive_reader;

/* Where files go. What they return ends the unpacking; why is theirs then. */
struct archive_sink {
    /* The next one, whose size bytes follow. Its name is sound, and behind the one before. */
    int (*file)(void *ctx, const char *name, uint64_t size, bool is_executable,
                struct tfe_reason *reason);
    int (*bytes)(void *ctx, const uint8_t *bytes, size_t n, struct tfe_reason *reason);
    void *ctx;
};

/* Of a bundle of so many bytes, packed: what it may unpack to. sink is copied. TFE_ENOMEM. */
int archive_reader_new(const struct archive_sink *sink, uint64_t packed,
                       struct archive_reader **ret) TFE_MUST_CHECK;
/* The next packed bytes, in pieces of any length. TFE_EPROTO: no bundle, or none of this form;
 * TFE_ETOOBIG: it unpacks to more than it may; TFE_ENOMEM. Nothing may follow an error. */
int archive_read(struct archive_reader *r, const uint8_t *bytes, size_t n,
                 struct tfe_reason *reason) TFE_MUST_CHECK;
/* All bytes have come. TFE_EPROTO: it does not end here. */
int archive_read_end(struct archive_reader *r, struct tfe_reason *reason) TFE_MUST_CHECK;
/* NULL is allowed. */
void archive_reader_free(struct archive_reader *r);

#endif
