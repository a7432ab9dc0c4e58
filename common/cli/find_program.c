/* common/cli/find_program.c: locates other programs of this project. */
#include "common/cli/find_program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void find_program(const char *name, char ret[PATH_MAX])
{
    size_t n = strlen(name) + 1;
    ssize_t length = readlink("/proc/self/exe", ret, PATH_MAX - n);
    char *slash = length > 0 ? memrchr(ret, '/', (size_t)length) : NULL;
    if (slash) {
        memcpy(slash + 1, name, n);
    }
    if (!slash || access(ret, X_OK) != 0) {
        (void)snprintf(ret, PATH_MAX, "%s", name);
    }
}
