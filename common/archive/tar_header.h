/* common/archive/tar_header.h: the canonical tar header of a file in a bundle. Private to the
 * archive. */
#ifndef TFE_COMMON_ARCHIVE_TAR_HEADER_H
#define TFE_COMMON_ARCHIVE_TAR_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/archive/archive.h"

#define TAR_BLOCK 512u

/* Contents of a header. */
struct tar_file {
    char name[ARCHIVE_NAME_MAX + 1];
    uint64_t size; /* size in bytes, up to ARCHIVE_UNPACKED_MAX */
    bool is_executable;
};

/* Encodes a header. Returns false if the name or size does not fit. */
bool tar_header_make(const struct tar_file *file, uint8_t ret[TAR_BLOCK]);
/* Decodes a header. Returns false unless it is exactly what tar_header_make produces. */
bool tar_header_read(const uint8_t block[TAR_BLOCK], struct tar_file *ret);

/* Returns the number of padding bytes between the end of a file and the next header. */
static inline uint32_t tar_padding(uint64_t size)
{
    return (uint32_t)(-size % TAR_BLOCK);
}

#endif
