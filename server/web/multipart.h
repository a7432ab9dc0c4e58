/* server/web/multipart.h: a multipart body (RFC 2046, 5.1) as it comes, in pieces of any length:
 * its parts' names, and their bytes. Nothing is kept but what may be a boundary, and a part's head.
 */
#ifndef TFE_SERVER_WEB_MULTIPART_H
#define TFE_SERVER_WEB_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/net/why.h"

#define MULTIPART_BOUNDARY_MAX 70u /* RFC 2046 has no longer one */
#define MULTIPART_LINE_MAX 1024u   /* of a part's head: browsers and curl need 200 */
#define MULTIPART_LINES_MAX 16u
#define MULTIPART_NAME_MAX 64u
#define MULTIPART_PARTS_MAX 8u /* a job, its bundle, and what a form may add */

/* What is told; what these return ends the reading, why is theirs then. */
struct multipart_sink {
    /* The next part, by the name that its Content-Disposition has. */
    int (*part)(void *ctx, const char *name, struct tfe_why *why);
    int (*bytes)(void *ctx, const uint8_t *bytes, size_t n, struct tfe_why *why);
    int (*end)(void *ctx, struct tfe_why *why); /* of that part */
    void *ctx;
};

struct multipart {
    struct multipart_sink sink;
    enum {
        MULTIPART_OUTSIDE, /* before the first boundary: nobody's */
        MULTIPART_AFTER,   /* a boundary was read, its line goes on */
        MULTIPART_HEAD,
        MULTIPART_BYTES,
        MULTIPART_OVER /* behind the last boundary: nobody's */
    } state;
    char mark[4 + MULTIPART_BOUNDARY_MAX + 1]; /* CR LF "--" boundary */
    size_t n_mark, matched;
    bool is_head_s; /* the first two that have matched are no part's bytes */
    char after;     /* what a boundary's line has said last, blanks as one */
    char line[MULTIPART_LINE_MAX + 1];
    size_t n_line;
    unsigned lines, parts;
    char name[MULTIPART_NAME_MAX + 1]; /* "" not said yet */
};

/* Whether type, of a Content-Type header, is multipart/form-data; NULL is allowed. */
bool multipart_is(const char *type);

/* Of the body that this Content-Type announces. sink is copied. TFE_EINVAL: it names no boundary
 * that may be one; why says so. */
int multipart_init(struct multipart *m, const char *type, const struct multipart_sink *sink,
                   struct tfe_why *why) TFE_MUST_CHECK;

/* The next bytes. TFE_EINVAL: that is no such body; TFE_ETOOBIG: more of heads or parts than there
 * may be; or what the sink returned. Nothing may follow an error. */
int multipart_read(struct multipart *m, const uint8_t *bytes, size_t n,
                   struct tfe_why *why) TFE_MUST_CHECK;

/* All bytes have come: TFE_EINVAL: it does not end here. The last boundary needs no line's end. */
int multipart_end(const struct multipart *m, struct tfe_why *why) TFE_MUST_CHECK;

#endif
