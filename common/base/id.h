/* common/base/id.h: validates names of jobs, runs, nodes, tokens and backups. Pure. */
#ifndef TFE_COMMON_BASE_ID_H
#define TFE_COMMON_BASE_ID_H

#include <stdbool.h>

/* Maximum length of an id. Ids become parts of paths, command lines and table columns (design
 * 3.2). */
#define TFE_ID_MAX 64

/* Text of the rule that id_is_valid enforces, for the end of an error message. */
#define TFE_ID_RULE "1 to 64 characters of A-Z a-z 0-9 . _ -, not beginning with . or -"

/* Maximum length of a host name (RFC 1035, section 2.3.4, as text) and of a one-line label for
 * display. */
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

/* Copies text. Returns TFE_EINVAL if text is not a valid id; ret is unchanged then. */
int id_set(struct tfe_id *ret, const char *text);

/* Compares as strcmp does. Cores iterate over ids in this order. */
int id_compare(const struct tfe_id *a, const struct tfe_id *b);

#endif
