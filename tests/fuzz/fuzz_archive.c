/* tests/fuzz/fuzz_archive.c: whatever comes out of bytes that somebody calls a bundle has sound
 * names, in their order, and as many bytes as was said.
 * The bytes are read twice: as they are, and packed, so that headers are reached. */
#include <string.h>
#include <zstd.h>

#include "common/archive/archive.h"
#include "tests/fuzz/fuzz.h"

struct seen {
    char name[ARCHIVE_NAME_MAX + 1];
    uint64_t left, total;
    uint32_t n;
};

static int on_file(void *ctx, const char *name, uint64_t size, bool is_executable,
                   struct tfe_reason *reason)
{
    struct seen *seen = ctx;
    MUST(seen->left == 0 && archive_name_is_valid(name) && name[0] != '/' && !strstr(name, "/../"));
    MUST(seen->n == 0 || strcmp(seen->name, name) < 0);
    memcpy(seen->name, name, strlen(name) + 1);
    seen->left = size;
    seen->total += size;
    MUST(++seen->n <= ARCHIVE_FILES_MAX && seen->total <= ARCHIVE_UNPACKED_MAX);
    return 0;
}

static int on_bytes(void *ctx, const uint8_t *bytes, size_t n, struct tfe_reason *reason)
{
    struct seen *seen = ctx;
    MUST(n > 0 && n <= seen->left);
    seen->left -= n;
    return 0;
}

static void read_all(const uint8_t *data, size_t size, size_t piece)
{
    struct seen seen = {.n = 0};
    struct tfe_reason reason = {""};
    const struct archive_writer sink = {on_file, on_bytes, &seen};
    struct archive_reader *r;
    int rc = 0;
    MUST(archive_reader_new(&sink, size, &r) == 0);
    for (size_t at = 0; at < size && rc == 0; at += piece) {
        rc = archive_read(r, data + at, size - at < piece ? size - at : piece, &reason);
        MUST(rc == 0 || reason.text[0]);
    }
    if (rc == 0 && archive_read_end(r, &reason) == 0) {
        MUST(seen.left == 0);
    }
    archive_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t packed[1 << 16];
    read_all(data, size, size > 0 ? 1 + data[0] : 1);
    if (ZSTD_compressBound(size) <= sizeof(packed)) {
        const size_t n = ZSTD_compress(packed, sizeof(packed), data, size, 1);
        MUST(!ZSTD_isError(n));
        read_all(packed, n, 512);
    }
    return 0;
}
