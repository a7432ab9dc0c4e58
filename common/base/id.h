/* common/base/id.h: names of jobs and nodes, as they travel and as they are kept. Pure. */
#ifndef TFE_COMMON_BASE_ID_H
#define TFE_COMMON_BASE_ID_H

#include <stdbool.h>

/* design 3.2's limit: ids go into logs, file names and command lines: short and plain. */
#define TFE_ID_MAX 64

/* Longest host name (RFC 1035, section 2.3.4, as text) and longest node label. */
#define TFE_HOST_MAX 253
#define TFE_LABEL_MAX 255

/* A job or node id: 1 to TFE_ID_MAX characters of [A-Za-z0-9._-], NUL-terminated. */
struct tfe_id {
    char text[TFE_ID_MAX + 1];
};

/* Whether text is a legal id. NULL is not. */
bool id_is_valid(const char *text);

/* Copies text. TFE_EINVAL: not a legal id, ret unchanged. */
int id_set(struct tfe_id *ret, const char *text);

/* As strcmp. The order of ids is the order in which cores iterate. */
int id_compare(const struct tfe_id *a, const struct tfe_id *b);

#endif
