/* common/archive/tar_header.h: the one header that a file has in a bundle. Private to the archive.
 */
#ifndef TFE_COMMON_ARCHIVE_TAR_HEADER_H
#define TFE_COMMON_ARCHIVE_TAR_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/archive/archive.h"

#define TAR_BLOCK 512u

/* What stands in a header. */
struct tar_file {
    char name[ARCHIVE_NAME_MAX + 1];
    uint64_t size; /* up to ARCHIVE_UNPACKED_MAX */
    bool is_executable;
};

/* False: there is no place for such a name. */
bool tar_header_make(const struct tar_file *file, uint8_t ret[TAR_BLOCK]);
/* False: it is not what tar_header_make makes of anything. */
bool tar_header_read(const uint8_t block[TAR_BLOCK], struct tar_file *ret);

/* Bytes between the end of a file and the next header. */
static inline uint32_t tar_padding(uint64_t size)
{
    return (uint32_t)(-size % TAR_BLOCK);
}

#endif
