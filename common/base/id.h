/* common/base/id.h: validates names of jobs, runs, nodes, tokens and backups. Pure. */
#ifndef TFE_COMMON_BASE_ID_H
#define TFE_COMMON_BASE_ID_H

#include <stdbool.h>

/* Ids become parts of paths, words of command lines and columns of tables (design 3.2). */
#define TFE_ID_MAX 64

/* What id_is_valid() demands, as the end of an error message. */
#define TFE_ID_RULE "1 to 64 characters of A-Z a-z 0-9 . _ -, the first one none of . and -"

/* Longest host name (RFC 1035, section 2.3.4, as text) and longest text of one line for people. */
#define TFE_HOST_MAX 253
#define TFE_LABEL_MAX 255

/* An id, NUL-terminated. */
struct tfe_id {
    char text[TFE_ID_MAX + 1];
};

/* Returns true if text matches [A-Za-z0-9_][A-Za-z0-9._-]* and has at most TFE_ID_MAX characters.
 * Such a text is a file name other than "." and "..", is not hidden, and is no option of a
 * command. False for NULL. */
bool id_is_valid(const char *text);

/* Makes an id of a text from outside, such as a host name: replaces a first character that
 * is not allowed by '_', any other one by '-', and cuts the text at TFE_ID_MAX. An empty text
 * becomes "_". */
void id_from_text(struct tfe_id *ret, const char *text);

/* Copies text. TFE_EINVAL: not a legal id, ret unchanged. */
int id_set(struct tfe_id *ret, const char *text);

/* As strcmp. The order of ids is the order in which cores iterate. */
int id_compare(const struct tfe_id *a, const struct tfe_id *b);

#endif
