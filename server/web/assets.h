/* server/web/assets.h: the files of the page, which are part of the program. */
#ifndef TFE_SERVER_WEB_ASSETS_H
#define TFE_SERVER_WEB_ASSETS_H

#include <stddef.h>

struct asset {
    const char *path; /* path of the URL, as "/app.js" */
    const char *type; /* media type */
    const unsigned char *bytes;
    const size_t *n;
    const char *etag; /* ETag: a hash of the bytes */
};

/* Returns NULL if no file has this path. */
const struct asset *asset_find(const char *path);

#endif
