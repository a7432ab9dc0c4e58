/* server/web/token_reader.h: reads the server's endpoint and tfe-web's token again after the server
 * has rejected the token. A separate process does so, because the one that serves HTTP has no
 * access to files. */
#ifndef TFE_SERVER_WEB_TOKEN_READER_H
#define TFE_SERVER_WEB_TOKEN_READER_H

#include "common/base/error.h"
#include "common/text/reason.h"

struct join_info;
struct privileges;
struct token_reader;
struct web_settings;

/* Starts the process, which becomes the user of rights and ends with its parent. Call it before
 * other threads exist. Borrows settings. TFE_ENOMEM, TFE_ESYS. */
int token_reader_new(const struct web_settings *settings, const struct privileges *rights,
                     struct token_reader **ret, struct tfe_reason *reason) TFE_MUST_CHECK;
/* NULL is allowed. */
void token_reader_free(struct token_reader *reader);

/* Returns the result of web_settings_find in the process; the caller ends *ret with join_done.
 * TFE_EAUTH if there is no token or reader is NULL. TFE_ENOMEM, TFE_ESYS. */
int token_reader_read(struct token_reader *reader, struct join_info *ret) TFE_MUST_CHECK;

#endif
