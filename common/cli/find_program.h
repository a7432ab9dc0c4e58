/* common/cli/find_program.h: locates other programs of this project. */
#ifndef TFE_COMMON_CLI_FIND_PROGRAM_H
#define TFE_COMMON_CLI_FIND_PROGRAM_H

#include <limits.h>

/* Writes the path of the program `name` (a literal without '/') in this program's directory, so
 * that both have the same version; if there is none, writes the name alone, to be looked up in
 * PATH. */
void find_program(const char *name, char ret[PATH_MAX]);

#endif
