/* common/base/version.h: the build that a program comes from. */
#ifndef TFE_COMMON_BASE_VERSION_H
#define TFE_COMMON_BASE_VERSION_H

/* Abbreviated commit, with "-dirty" if the checkout had local changes; "unknown" if the source was
 * neither a git checkout nor a release tarball. */
extern const char tfe_commit[];

#endif
