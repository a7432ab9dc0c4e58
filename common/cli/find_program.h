/* common/cli/find_program.h: where another program of ours is. */
#ifndef TFE_COMMON_CLI_FIND_PROGRAM_H
#define TFE_COMMON_CLI_FIND_PROGRAM_H

#include <limits.h>

/* The program of that name (a literal, without '/') beside this one, so that both are of one
 * version; else its name, for PATH. */
void find_program(const char *name, char ret[PATH_MAX]);

#endif
