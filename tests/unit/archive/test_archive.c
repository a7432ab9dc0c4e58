/* tests/unit/archive/test_archive.c: equal files give equal bytes, unpacking restores them, and
 * nothing else is unpacked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/archive/archive.h"
#include "common/archive/tar_header.h"
#include "tests/unit/test_runner.h"

struct bytes {
    uint8_t *v;
    size_t n;
};

static int add_bytes(void *ctx, const uint8_t *bytes, size_t n, struct tfe_reason *reason)
{
    struct bytes *b = ctx;
    b->v = realloc(b->v, b->n + n);
    memcpy(b->v + b->n, bytes, n);
    b->n += n;
    return 0;
}

struct file {
    const char *name, *content;
    bool is_executable;
};

static struct bytes pack(const struct file *files, size_t n)
{
    struct bytes out = {NULL};
    struct tfe_reason reason = {""};
    struct archive_packer *p;
    assert_int_equal(archive_packer_new(add_bytes, &out, &p), 0);
    for (size_t i = 0; i < n; i++) {
        const size_t size = strlen(files[i].content);
        assert_int_equal(archive_pack_file(p, files[i].name, size, files[i].is_executable, &reason),
                         0);
        for (size_t at = 0; at < size; at++) { /* byte by byte */
            assert_int_equal(archive_pack(p, files[i].content + at, 1, &reason), 0);
        }
    }
    assert_int_equal(archive_pack_end(p, &reason), 0);
    archive_packer_free(p);
    return out;
}

/* --- unpacking -------------------------------------------------------------------------------- */

struct shown {
    char text[4096];
    uint64_t bytes;
};

static void __attribute__((format(printf, 2, 3))) show(struct shown *s, const char *format, ...)
{
    const size_t n = strlen(s->text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(s->text + n, sizeof(s->text) - n, format, args);
    va_end(args);
}

static int show_file(void *ctx, const char *name, uint64_t size, bool is_executable,
                     struct tfe_reason *reason)
{
    show(ctx, "|%s%s %u:", name, is_executable ? "*" : "", (unsigned)size);
    return 0;
}

static int show_bytes(void *ctx, const uint8_t *bytes, size_t n, struct tfe_reason *reason)
{
    struct shown *s = ctx;
    s->bytes += n;
    show(s, "%.*s", n < 64 ? (int)n : 64, (const char *)bytes);
    return 0;
}

/* Unpacks the input in pieces of this size. */
static int read_back(struct bytes in, size_t piece, struct shown *shown, struct tfe_reason *reason)
{
    const struct archive_writer sink = {show_file, show_bytes, shown};
    struct archive_reader *r;
    int rc = 0;
    *shown = (struct shown){.bytes = 0};
    *reason = (struct tfe_reason){""};
    assert_int_equal(archive_reader_new(&sink, in.n, &r), 0);
    for (size_t at = 0; at < in.n && rc == 0; at += piece) {
        rc = archive_read(r, in.v + at, in.n - at < piece ? in.n - at : piece, reason);
    }
    rc = rc ? rc : archive_read_end(r, reason);
    archive_reader_free(r);
    return rc;
}

#define DEEP                                                                                       \
    "a-directory-with-a-name-of-some-length/and-another-one-below-it-that-is-long/more-of-it/"     \
    "until-a-header's-own-field-is-full/file.py"
static const struct file some[] = {
    {DEEP, "deep", false}, {"a/b", "", false}, {"empty/c", "x", true}, {"z", "1234567890", false}};

TEST(archive, files_come_out_as_they_went_in)
{
    struct bytes packed = pack(some, 4);
    struct shown shown;
    struct tfe_reason reason;
    for (size_t piece = 1; piece < packed.n + 2; piece = piece * 3 + 1) {
        assert_int_equal(read_back(packed, piece, &shown, &reason), 0);
        assert_string_equal(shown.text, "|" DEEP " 4:deep|a/b 0:|empty/c* 1:x|z 10:1234567890");
    }
    free(packed.v);
}

TEST(archive, the_same_files_are_the_same_bytes)
{
    struct bytes one = pack(some, 4);
    struct bytes two = pack(some, 4);
    assert_int_equal(one.n, two.n);
    assert_memory_equal(one.v, two.v, one.n);
    free(one.v);
    free(two.v);
}

TEST(archive, a_name_leads_below_and_nowhere_else)
{
    static const char *const sound[] = {"a", "a/b", ".hidden", "...", "a b", "a/..b", "\xc3\xa4"};
    static const char *const bad[] = {"",    "/",   "/a",   "a/",   "a//b",   ".",    "..",
                                      "./a", "a/.", "../a", "a/..", "a/../b", "a\nb", "a\x7f"};
    char name[ARCHIVE_NAME_MAX + 2] = "";
    for (size_t i = 0; i < sizeof(sound) / sizeof(sound[0]); i++) {
        assert_true(archive_name_is_valid(sound[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(archive_name_is_valid(bad[i]));
    }
    memset(name, 'a', ARCHIVE_NAME_MAX);
    assert_true(archive_name_is_valid(name));
    name[ARCHIVE_NAME_MAX] = 'a';
    assert_false(archive_name_is_valid(name));
}

TEST(archive, who_packs_is_told_what_nobody_would_unpack)
{
    struct bytes out = {NULL};
    struct tfe_reason reason;
    struct archive_packer *p;
    char name[200];
    memset(name, 'n', sizeof(name));
    name[199] = '\0';
    assert_int_equal(archive_packer_new(add_bytes, &out, &p), 0);
    assert_int_equal(archive_pack_file(p, name, 0, false, &reason), TFE_ETOOBIG);
    assert_int_equal(archive_pack_file(p, "../a", 0, false, &reason), TFE_EINVAL);
    assert_int_equal(archive_pack_file(p, "b", ARCHIVE_UNPACKED_MAX + 1, false, &reason),
                     TFE_ETOOBIG);
    assert_int_equal(archive_pack_file(p, "b", 2, false, &reason), 0);
    assert_int_equal(archive_pack(p, "123", 3, &reason), TFE_EINVAL);
    assert_int_equal(archive_pack(p, "1", 1, &reason), 0);
    assert_int_equal(archive_pack_end(p, &reason), TFE_EINVAL);
    assert_int_equal(archive_pack(p, "2", 1, &reason), 0);
    assert_int_equal(archive_pack_file(p, "b", 0, false, &reason), TFE_EINVAL);
    assert_int_equal(archive_pack_file(p, "a", 0, false, &reason), TFE_EINVAL);
    assert_int_equal(archive_pack_end(p, &reason), 0);
    archive_packer_free(p);
    free(out.v);
}

/* Packing refuses exactly what unpacking refuses. The input starts with much compressible data, so
 * that the ratio is exceeded only at the end. */
TEST(archive, much_that_packs_well_may_come_before_what_does_not)
{
    enum { ZEROS = 64 * 1024 * 1024, NOISE = 512 * 1024 };
    uint8_t *content = calloc(1, ZEROS);
    uint32_t noise = 1;
    struct bytes out = {NULL};
    struct shown shown;
    struct tfe_reason reason = {""};
    struct archive_packer *p;
    assert_int_equal(archive_packer_new(add_bytes, &out, &p), 0);
    assert_int_equal(archive_pack_file(p, "a", ZEROS, false, &reason), 0);
    assert_int_equal(archive_pack(p, content, ZEROS, &reason), 0);
    for (size_t i = 0; i < NOISE; i++) {
        noise = noise * 1664525 + 1013904223;
        content[i] = (uint8_t)(noise >> 24);
    }
    assert_int_equal(archive_pack_file(p, "b", NOISE, false, &reason), 0);
    assert_int_equal(archive_pack(p, content, NOISE, &reason), 0);
    assert_int_equal(archive_pack_end(p, &reason), 0);
    archive_packer_free(p);
    assert_int_equal(read_back(out, 64 * 1024, &shown, &reason), 0);
    assert_int_equal(shown.bytes, ZEROS + NOISE);
    free(out.v);
    free(content);
}

/* --- hostile archives ------------------------------------------------------------------------- */

static struct bytes squeeze(const uint8_t *plain, size_t n)
{
    struct bytes out = {malloc(ZSTD_compressBound(n)), 0};
    out.n = ZSTD_compress(out.v, ZSTD_compressBound(n), plain, n, 1);
    return out;
}

/* Unpacks an archive with one file "f" of one byte after changing one byte of the tar data. */
static int judge(size_t at, uint8_t byte, size_t n, struct tfe_reason *reason)
{
    uint8_t plain[5 * TAR_BLOCK] = {0};
    struct tar_file file = {.name = "f", .size = 1};
    struct shown shown;
    assert_true(tar_header_make(&file, plain));
    plain[TAR_BLOCK] = 'x';
    plain[at] = byte;
    struct bytes packed = squeeze(plain, n);
    int rc = read_back(packed, packed.n, &shown, reason);
    free(packed.v);
    return rc;
}

TEST(archive, there_is_one_form_of_a_header_and_all_else_is_refused)
{
    struct tfe_reason reason;
    assert_int_equal(judge(TAR_BLOCK, 'y', 4 * TAR_BLOCK, &reason), 0);
    for (size_t at = 0; at < TAR_BLOCK; at++) { /* mode, owner, time, kind, links, devices, … */
        assert_int_equal(judge(at, 0xa5, 4 * TAR_BLOCK, &reason), TFE_EPROTO);
        assert_non_null(strstr(reason.text, "not a bundle"));
    }
    /* Padding of the file. */
    assert_int_equal(judge(TAR_BLOCK + 1, 1, 4 * TAR_BLOCK, &reason), TFE_EPROTO);
    /* End of the archive. */
    assert_int_equal(judge(4 * TAR_BLOCK - 1, 1, 4 * TAR_BLOCK, &reason), TFE_EPROTO);
    /* Data behind the end. */
    assert_int_equal(judge(TAR_BLOCK, 'x', 5 * TAR_BLOCK, &reason), TFE_EPROTO);
    assert_int_equal(judge(TAR_BLOCK, 'x', 3 * TAR_BLOCK, &reason), TFE_EPROTO); /* truncated */
    assert_int_equal(judge(TAR_BLOCK, 'x', TAR_BLOCK + 1, &reason), TFE_EPROTO);
}

TEST(archive, what_is_cut_off_or_goes_on_is_refused)
{
    struct bytes packed = pack(some, 4);
    struct shown shown;
    struct tfe_reason reason;
    const size_t whole = packed.n;
    for (packed.n = 0; packed.n < whole; packed.n++) {
        assert_int_equal(read_back(packed, 7, &shown, &reason), TFE_EPROTO);
    }
    packed.v = realloc(packed.v, 2 * whole);
    memcpy(packed.v + whole, packed.v, whole); /* a second frame */
    packed.n = 2 * whole;
    assert_int_equal(read_back(packed, 7, &shown, &reason), TFE_EPROTO);
    assert_int_equal(read_back(packed, packed.n, &shown, &reason), TFE_EPROTO);
    packed.n = whole + 1;
    assert_int_equal(read_back(packed, packed.n, &shown, &reason), TFE_EPROTO);
    free(packed.v);
}

TEST(archive, a_bomb_is_left_alone_before_it_is_large)
{
    const size_t size = 64 * 1024 * 1024;
    uint8_t *plain = calloc(1, size);
    struct tar_file file = {.name = "f", .size = size - TAR_BLOCK};
    struct shown shown;
    struct tfe_reason reason;
    assert_true(tar_header_make(&file, plain));
    struct bytes packed = squeeze(plain, size);
    assert_true(packed.n < 64 * 1024);
    assert_int_equal(read_back(packed, 4096, &shown, &reason), TFE_ETOOBIG);
    assert_non_null(strstr(reason.text, "500 times its size"));
    assert_true(shown.bytes < size / 2);
    free(packed.v);
    free(plain);
}

TEST(archive, one_more_file_than_may_be_is_refused)
{
    const size_t n = ARCHIVE_FILES_MAX + 1;
    uint8_t *plain = calloc(n + 2, TAR_BLOCK);
    struct shown shown;
    struct tfe_reason reason;
    for (size_t i = 0; i < n; i++) {
        struct tar_file file = {.size = 0};
        (void)snprintf(file.name, sizeof(file.name), "%06zu", i);
        assert_true(tar_header_make(&file, plain + i * TAR_BLOCK));
    }
    struct bytes packed = squeeze(plain, (n + 2) * TAR_BLOCK);
    assert_int_equal(read_back(packed, 4096, &shown, &reason), TFE_ETOOBIG);
    free(packed.v);
    free(plain);
}
