/* server/query/mask_secrets.h: what of a submitted job may be a secret, as people see it. */
#ifndef TFE_SERVER_QUERY_MASK_SECRETS_H
#define TFE_SERVER_QUERY_MASK_SECRETS_H

#include <stddef.h>

/* Copies a job's source, cut to what fits. In a URL "***" takes the place of user and password (of
 * ssh: only if there is a password), and of a query. */
void masked_source(char *ret, size_t cap, const char *source);

/* Cuts the arguments off a command, in a buffer of cap bytes, whose words are joined by blanks:
 * "python train.py …". What Python runs stays: its script or module. */
void masked_command(char *command, size_t cap);

#endif
