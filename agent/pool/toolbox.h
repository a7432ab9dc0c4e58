/* agent/pool/toolbox.h: copies this program with everything it needs into one directory, so that
 * it runs in any image: dynamic loader, libraries, tfe_bootstrap.py and the files beside it. The
 * loader's copy reads no ld.so.preload, so that no code of the image is loaded into the program. */
#ifndef TFE_AGENT_POOL_TOOLBOX_H
#define TFE_AGENT_POOL_TOOLBOX_H

#include "common/base/error.h"
#include "common/text/reason.h"

struct toolbox;

/* Creates the directory, readable for all users. Returns TFE_ESYS with reason set. */
int toolbox_new(struct toolbox **ret, struct tfe_reason *reason) TFE_MUST_CHECK;
/* Removes the directory. Accepts NULL. */
void toolbox_free(struct toolbox *t);

/* Returns the directory's path on this machine. */
const char *toolbox_path(const struct toolbox *t);
/* Return file names in the directory. */
const char *toolbox_loader(const struct toolbox *t);
const char *toolbox_program(const struct toolbox *t);

#endif
