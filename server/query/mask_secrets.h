/* server/query/mask_secrets.h: hides secrets in the command and the source of a submitted job
 * before they are shown. */
#ifndef TFE_SERVER_QUERY_MASK_SECRETS_H
#define TFE_SERVER_QUERY_MASK_SECRETS_H

#include <stddef.h>

/* Copies the source of a job, cut to cap bytes. In a URL, "***" replaces user and password (for
 * ssh only if there is a password) and the query string. */
void mask_source(char *ret, size_t cap, const char *source);

/* Cuts the arguments off a command whose words are separated by blanks, in a buffer of cap bytes:
 * "python train.py …". The script or module that Python runs stays. */
void mask_command(char *command, size_t cap);

#endif
