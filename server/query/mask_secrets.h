/* server/query/mask_secrets.h: hides secrets in the command and the source of a submitted job
 * before they are shown. */
#ifndef TFE_SERVER_QUERY_MASK_SECRETS_H
#define TFE_SERVER_QUERY_MASK_SECRETS_H

#include <stddef.h>

/* Copies the source of a job, cut to cap bytes. In a URL, "***" replaces user and password (for
 * ssh only if there is a password) and the query string. */
void mask_source(char *ret, size_t cap, const char *source);

/* Returns how many words of a command are shown to those who may not see its arguments: the program
 * and, behind Python, the script or module that it runs. */
size_t masked_words(const char *const *argv, size_t n);

#endif
