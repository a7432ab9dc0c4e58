/* server/ctl/bundle_pack.h: packs a directory as a bundle for submit. */
#ifndef TFE_SERVER_CTL_BUNDLE_PACK_H
#define TFE_SERVER_CTL_BUNDLE_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/text/reason.h"
#include "server/ctl/verb.h"

struct bundle {
    uint8_t *bytes;
    size_t n;
    uint32_t n_files;
    char digest[MSG_BUNDLE_HEX + 1]; /* BLAKE2b of the packed bytes */
};

/* Packs the files of the directory that git would keep: all except those that a .gitignore names.
 * The same files give the same bytes. Returns 0; TFE_EINVAL if an entry is no regular file or
 * there is none; TFE_ETOOBIG; TFE_ESYS; TFE_ENOMEM. The caller ends *ret with bundle_done(). */
int bundle_pack(const char *directory, struct bundle *ret,
                struct tfe_reason *reason) TFE_MUST_CHECK;

/* Frees the bundle. A zeroed bundle is allowed. */
void bundle_done(struct bundle *bundle);

/* Uploads the bundle unless the server has it. Returns an exit code, after printing the reason of
 * an error. */
int bundle_put(const struct ctl_settings *settings, const struct bundle *bundle);

#endif
