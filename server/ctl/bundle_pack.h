/* server/ctl/bundle_pack.h: a directory as a bundle, for who hands its job in. */
#ifndef TFE_SERVER_CTL_BUNDLE_PACK_H
#define TFE_SERVER_CTL_BUNDLE_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/message/msg.h"
#include "server/ctl/verb.h"

struct bundle {
    uint8_t *bytes;
    size_t n;
    uint32_t n_files;
    char digest[MSG_BUNDLE_HEX + 1]; /* BLAKE2b of the bytes */
};

/* Packs what git would keep of the directory: all files but those that a .gitignore names. The same
 * files are the same bytes. TFE_EINVAL: something in it is no regular file, or there is nothing;
 * TFE_ETOOBIG; TFE_ESYS; TFE_ENOMEM. *ret is the caller's to end. */
int bundle_pack(const char *directory, struct bundle *ret,
                struct tfe_reason *reason) TFE_MUST_CHECK;

/* A zeroed one is allowed. */
void bundle_done(struct bundle *bundle);

/* Gives it to the server, unless that has it. Exit code of the program; said why. */
int bundle_put(const struct ctl_settings *settings, const struct bundle *bundle);

#endif
