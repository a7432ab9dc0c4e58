/* tests/unit/web/test_multipart.c: a body of several parts, in pieces of every length; what is
 * none, and what is more than there may be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/web/multipart.h"
#include "tests/unit/story.h"

#define TYPE "multipart/form-data; boundary=XyZ"

/* All that was told: "NAME=BYTES;" of each part. */
static char told[4096];
static size_t n_told;
static int answer; /* the sink's, of a part called "no" */

static void tell(const void *bytes, size_t n)
{
    assert_true(n_told + n < sizeof(told));
    memcpy(told + n_told, bytes, n);
    n_told += n;
    told[n_told] = '\0';
}

static int on_part(void *ctx, const char *name, struct tfe_why *why)
{
    assert_ptr_equal(ctx, told);
    tell(name, strlen(name));
    tell("=", 1);
    return strcmp(name, "no") == 0 ? answer : 0;
}

static int on_bytes(void *ctx, const uint8_t *bytes, size_t n, struct tfe_why *why)
{
    assert_true(n > 0);
    tell(bytes, n);
    return 0;
}

static int on_end(void *ctx, struct tfe_why *why)
{
    tell(";", 1);
    return 0;
}

static const struct multipart_sink sink = {on_part, on_bytes, on_end, told};

/* What comes of a body in two pieces, the first of `cut` bytes, or (each > 0) in pieces of each. */
static int read_cut(const char *type, const char *body, size_t n, size_t cut, size_t each,
                    struct tfe_why *why)
{
    struct multipart m;
    n_told = 0;
    told[0] = '\0';
    int rc = multipart_init(&m, type, &sink, why);
    for (size_t at = 0; at < n && rc == 0;) {
        size_t some = each ? each : at < cut ? cut - at : n - at;
        some = some < n - at ? some : n - at;
        uint8_t *copy = malloc(some); /* a sanitizer sees what is read behind it */
        memcpy(copy, body + at, some);
        rc = multipart_read(&m, copy, some, why);
        free(copy);
        at += some;
    }
    return rc ? rc : multipart_end(&m, why);
}

static int read_whole(const char *type, const char *body, struct tfe_why *why)
{
    return read_cut(type, body, strlen(body), strlen(body), 0, why);
}

static const char form[] = "who reads this has no form\r\n"
                           "--XyZ\r\n"
                           "Content-Disposition: form-data; name=\"job\"\r\n"
                           "Content-Type: application/json\r\n"
                           "\r\n"
                           "{\"name\": 1}\r\n"
                           "--XyZ  \t\r\n"
                           "content-disposition:form-data; filename=\"a;b\\\"c\"; name=bundle\r\n"
                           "\r\n"
                           "\r\n--Xy\r\r\n-\r\n--XyY\r\n\r\n--XyZ\r\n"
                           "Content-Disposition: form-data; name=\"\\\"e\"\r\n"
                           "\r\n"
                           "\r\n--XyZ--\r\nand behind it\r\n--XyZ\r\n";
#define FORM_TOLD "job={\"name\": 1};bundle=\r\n--Xy\r\r\n-\r\n--XyY\r\n;\"e=;"

TEST(multipart, its_parts_are_told_wherever_it_is_cut)
{
    struct tfe_why why;
    for (size_t cut = 0; cut <= sizeof(form) - 1; cut++) {
        assert_int_equal(read_cut(TYPE, form, sizeof(form) - 1, cut, 0, &why), 0);
        assert_string_equal(told, FORM_TOLD);
    }
    for (size_t each = 1; each < 40; each++) {
        assert_int_equal(read_cut(TYPE, form, sizeof(form) - 1, 0, each, &why), 0);
        assert_string_equal(told, FORM_TOLD);
    }
}

TEST(multipart, begins_at_once_and_ends_without_a_line_s_end)
{
    static const char body[] =
        "--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--XyZ--";
    struct tfe_why why;
    for (size_t cut = 0; cut <= sizeof(body) - 1; cut++) {
        assert_int_equal(read_cut(TYPE, body, sizeof(body) - 1, cut, 0, &why), 0);
        assert_string_equal(told, "a=x;");
    }
    /* Whatever less there is, is not all of it. */
    for (size_t n = 0; n < sizeof(body) - 1; n++) {
        assert_int_equal(read_cut(TYPE, body, n, n, 0, &why), TFE_EINVAL);
        assert_string_equal(why.text, "the body is no multipart/form-data: it ends before its last "
                                      "boundary");
    }
}

TEST(multipart, a_part_has_every_byte_that_is_in_it)
{
    static const char head[] = "--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\n";
    static const char tail[] = "\r\n--XyZ--\r\n";
    char body[sizeof(head) + 256 + sizeof(tail)];
    struct tfe_why why;
    memcpy(body, head, sizeof(head) - 1);
    for (int i = 0; i < 256; i++) {
        body[sizeof(head) - 1 + (size_t)i] = (char)i;
    }
    memcpy(body + sizeof(head) - 1 + 256, tail, sizeof(tail) - 1);
    for (size_t each = 1; each < 300; each += 7) {
        assert_int_equal(
            read_cut(TYPE, body, sizeof(head) - 1 + 256 + sizeof(tail) - 1, 0, each, &why), 0);
        assert_int_equal(n_told, 2 + 256 + 1);
        assert_memory_equal(told + 2, body + sizeof(head) - 1, 256);
    }
}

TEST(multipart, what_looks_like_its_boundary_at_a_part_s_first_byte_is_told)
{
    struct tfe_why why;
    assert_int_equal(
        read_whole(TYPE, "--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\n--XyY\r\n--XyZ--",
                   &why),
        0);
    assert_string_equal(told, "a=--XyY;");
    assert_int_equal(
        read_whole(TYPE, "--XyZ\r\nContent-Disposition: form-data; name=a\r\n\r\n--XyZ--", &why),
        0);
    assert_string_equal(told, "a=;");
}

TEST(multipart, which_type_it_is)
{
    static const struct {
        const char *type;
        bool is_form, has_boundary;
    } types[] = {
        {TYPE, true, true},
        {" Multipart/Form-Data;BOUNDARY=XyZ", true, true},
        {"multipart/form-data ; charset=\"a;b\" ; boundary=\"XyZ\"", true, true},
        {"multipart/form-data; boundary=\"X\\yZ\"", true, true},
        {"multipart/form-data; boundary2=a; boundar=b; boundary=XyZ", true, true},
        {"multipart/form-data", true, false},
        {"multipart/form-data; boundary", true, false},
        {"multipart/form-data; boundary=", true, false},
        {"multipart/form-data; boundary=\"XyZ", true, false},
        {"multipart/form-data; boundary=\"XyZ \"", true, false},
        {"multipart/form-data; boundary=X\ryZ", true, false},
        {"multipart/form-data; boundary=X%yZ", true, false},
        {"multipart/form-data; xboundary=XyZ", true, false},
        {"multipart/form-data, boundary=XyZ", false, false},
        {"multipart/form-datas; boundary=XyZ", false, false},
        {"multipart/mixed; boundary=XyZ", false, false},
        {"application/json", false, false},
        {"", false, false},
    };
    struct multipart m;
    struct tfe_why why;
    char longest[128];
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        assert_int_equal(multipart_is(types[i].type), types[i].is_form);
        int rc = multipart_init(&m, types[i].type, &sink, &why);
        assert_int_equal(rc, types[i].has_boundary ? 0 : TFE_EINVAL);
        if (types[i].has_boundary) {
            assert_int_equal(read_whole(types[i].type, form, &why), 0);
            assert_string_equal(told, FORM_TOLD);
        }
    }
    assert_false(multipart_is(NULL));
    for (int n = 70; n <= 71; n++) {
        (void)snprintf(longest, sizeof(longest), "multipart/form-data; boundary=%0*d", n, 7);
        assert_int_equal(multipart_init(&m, longest, &sink, &why), n == 70 ? 0 : TFE_EINVAL);
    }
}

#define NAMED "--XyZ\r\nContent-Disposition: form-data; name=a\r\n"
#define END "\r\n\r\nx\r\n--XyZ--"

TEST(multipart, what_is_none_is_refused_with_a_sentence)
{
    static const struct {
        const char *body, *says;
    } bodies[] = {
        {"", "ends before its last boundary"},
        {"{\"name\": \"a\"}", "ends before its last boundary"},
        {"x--XyZ--", "ends before its last boundary"},
        {"--XyZ\r\n\r\nx\r\n--XyZ--", "a part has no name"},
        {"--XyZ\r\nContent-Disposition: form-data" END, "name=\"…\""},
        {"--XyZ\r\nContent-Disposition: form-data; name=\"\"" END, "name=\"…\""},
        {"--XyZ\r\nContent-Disposition: form-data; name=\"a" END, "name=\"…\""},
        {"--XyZ\r\nContent-Disposition: attachment; name=a" END, "name=\"…\""},
        {"--XyZ\r\nContent-Disposition: form-datas; name=a" END, "name=\"…\""},
        {NAMED "Content-Disposition: form-data; name=b" END, "name=\"…\""},
        {NAMED "Content-Transfer-Encoding: base64" END, "encoded for mail"},
        {NAMED " folded: x" END, "head makes no sense"},
        {NAMED "X: y\n\r\nx\r\n--XyZ--", "without a carriage return"},
        {NAMED "\n", "without a carriage return"},
        {"--XyZX\r\n", "in a boundary's line"},
        {"--XyZ-\r\n", "in a boundary's line"},
        {"--XyZ --", "in a boundary's line"},
        {"--XyZ \n", "in a boundary's line"},
        {"--XyZ\rx", "in a boundary's line"},
        {"--XyZ\n", "in a boundary's line"},
    };
    struct tfe_why why;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        assert_int_equal(read_whole(TYPE, bodies[i].body, &why), TFE_EINVAL);
        if (!strstr(why.text, bodies[i].says)) {
            fail_msg("%s: %s", bodies[i].body, why.text);
        }
    }
    static const char nul[] = NAMED "X: \0" END;
    assert_int_equal(read_cut(TYPE, nul, sizeof(nul) - 1, sizeof(nul) - 1, 0, &why), TFE_EINVAL);
    assert_int_equal(read_whole(TYPE, NAMED "Content-Transfer-Encoding: Binary" END, &why), 0);
    assert_int_equal(read_whole(TYPE, NAMED "Content-Transfer-Encoding: 8BIT" END, &why), 0);
    assert_int_equal(read_whole(TYPE, NAMED "Content-Transfer-Encoding: 7bit" END, &why), 0);
}

/* A form of n parts; of n lines in a head; of one line of n bytes with its end. */
static int read_parts(unsigned n, struct tfe_why *why)
{
    char body[2048] = "";
    for (unsigned i = 0; i < n; i++) {
        (void)strcat(body, NAMED "X: y\r\nX: y\r\n\r\nx\r\n"); /* of all together too many */
    }
    return read_whole(TYPE, strcat(body, "--XyZ--"), why);
}

static int read_lines(unsigned n, struct tfe_why *why)
{
    char body[2048] = NAMED;
    for (unsigned i = 1; i < n; i++) {
        (void)strcat(body, "X: y\r\n");
    }
    return read_whole(TYPE, strcat(body, "\r\nx\r\n--XyZ--"), why);
}

static int read_line(int n, struct tfe_why *why)
{
    char body[2048];
    (void)snprintf(body, sizeof(body), NAMED "%0*d\r\n\r\nx\r\n--XyZ--", n - 2, 0);
    return read_whole(TYPE, body, why);
}

TEST(multipart, has_no_more_of_heads_and_parts_than_its_limits)
{
    struct tfe_why why;
    assert_int_equal(read_parts(MULTIPART_PARTS_MAX, &why), 0);
    assert_int_equal(read_parts(MULTIPART_PARTS_MAX + 1, &why), TFE_ETOOBIG);
    assert_non_null(strstr(why.text, "more than 8 parts"));
    assert_int_equal(read_lines(MULTIPART_LINES_MAX, &why), 0);
    assert_int_equal(read_lines(MULTIPART_LINES_MAX + 1, &why), TFE_ETOOBIG);
    assert_non_null(strstr(why.text, "more than 16 lines"));
    assert_int_equal(read_line(MULTIPART_LINE_MAX, &why), 0);
    assert_int_equal(read_line(MULTIPART_LINE_MAX + 1, &why), TFE_ETOOBIG);
    assert_non_null(strstr(why.text, "longer than 1024 bytes"));
    char body[512];
    for (int n = 64; n <= 65; n++) {
        (void)snprintf(body, sizeof(body), "--XyZ\r\nContent-Disposition: form-data; name=%0*d" END,
                       n, 7);
        assert_int_equal(read_whole(TYPE, body, &why), n == 64 ? 0 : TFE_EINVAL);
    }
}

TEST(multipart, ends_with_what_its_reader_says)
{
    struct tfe_why why;
    answer = TFE_ESTATE;
    assert_int_equal(read_whole(TYPE,
                                "--XyZ\r\nContent-Disposition: form-data; name=no\r\n\r\nx\r\n"
                                "--XyZ--",
                                &why),
                     TFE_ESTATE);
    assert_string_equal(told, "no=");
    answer = 0;
}
