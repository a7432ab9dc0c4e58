/* agent/pool/toolbox.h: this program with all that it needs, in one directory, so that it runs in
 * any image: the program, its dynamic loader and libraries, tfe_bootstrap.py, tfe_hooks.py. Code of
 * the image is not loaded into it: an empty /etc/ld.so.preload and a plain /etc/nsswitch.conf are
 * there for the image, too. */
#ifndef TFE_AGENT_POOL_TOOLBOX_H
#define TFE_AGENT_POOL_TOOLBOX_H

#include "common/base/error.h"
#include "common/base/reason.h"

/* Where the directory is in a container, and the files in it that are mounted elsewhere. */
#define TOOLBOX_TARGET "/.tfe"
#define TOOLBOX_PRELOAD "ld.so.preload"
#define TOOLBOX_NSSWITCH "nsswitch.conf"

struct toolbox;

/* Copies all of it, for others to read. TFE_ESYS with why. */
int toolbox_new(struct toolbox **ret, struct tfe_reason *reason) TFE_MUST_CHECK;
/* Removes it. NULL is allowed. */
void toolbox_free(struct toolbox *t);

/* Its directory on this machine. */
const char *toolbox_path(const struct toolbox *t);
/* File names in it. */
const char *toolbox_loader(const struct toolbox *t);
const char *toolbox_program(const struct toolbox *t);

#endif
