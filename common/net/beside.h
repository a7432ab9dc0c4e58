/* common/net/beside.h: where another program of ours is. */
#ifndef TFE_COMMON_NET_BESIDE_H
#define TFE_COMMON_NET_BESIDE_H

#include <limits.h>

/* The program of that name (a literal, without '/') beside this one, so that both are of one
 * version; else its name, for PATH. */
void beside_find(const char *name, char ret[PATH_MAX]);

#endif
