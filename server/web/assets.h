/* server/web/assets.h: the page's files, which are in the program. */
#ifndef TFE_SERVER_WEB_ASSETS_H
#define TFE_SERVER_WEB_ASSETS_H

#include <stddef.h>

struct asset {
    const char *path; /* "/app.js" */
    const char *type; /* of its content */
    const unsigned char *bytes;
    const size_t *n;
    const char *etag; /* changes with the bytes */
};

/* NULL: there is none at this path. */
const struct asset *asset_find(const char *path);

#endif
