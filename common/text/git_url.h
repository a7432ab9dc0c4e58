/* common/text/git_url.h: the text "URL@REF" that names a commit of a git repository. Pure. */
#ifndef TFE_COMMON_TEXT_GIT_URL_H
#define TFE_COMMON_TEXT_GIT_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of characters of a commit id: SHA-1 has 40, SHA-256 has 64. */
#define GIT_COMMIT_MAX 64u
/* Characters of a commit id that identify it in messages. */
#define GIT_COMMIT_SHORT 16

/* Returns the length of URL in "URL@REF"; the '@' of "git@host:path" or "https://me@host/path"
 * belongs to the URL. */
size_t git_url_length(const char *text);

/* Returns true if ref is a complete commit id, which no later push can change. */
bool git_ref_is_commit(const char *ref);

/* Returns the first GIT_COMMIT_SHORT hexadecimal digits of a commit id as a number, which is how
 * JOIN names a commit. */
uint64_t git_commit_number(const char *commit);

/* Copies a URL without its secrets, truncated to cap bytes: "***" replaces user and password (for
 * ssh only if there is a password) and the query string. */
void git_url_mask(char *ret, size_t cap, const char *url);

#endif
