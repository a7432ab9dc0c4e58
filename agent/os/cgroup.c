/* agent/os/cgroup.c: implementation of cgroup.h. */
#include "agent/os/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns true if the comma-separated list ("cpu,cpuacct") contains the word. */
static bool list_has(const char *list, const char *word)
{
    size_t n = strlen(word);
    while (list) {
        if (strncmp(list, word, n) == 0 && (list[n] == ',' || list[n] == '\0')) {
            return true;
        }
        list = strchr(list, ',');
        list = list ? list + 1 : NULL;
    }
    return false;
}

/* Parses lines "NUMBER:CONTROLLERS:PATH" (cgroups(7)); the list of controllers is empty for v2. */
static bool path_find(const char *controller, char ret[PATH_MAX])
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX + 64];
    bool is_found = false;
    while (file && !is_found && fgets(line, sizeof line, file)) {
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path) {
            continue;
        }
        *path++ = '\0';
        list++;
        path[strcspn(path, "\n")] = '\0';
        if (controller ? list_has(list, controller) : *list == '\0') {
            is_found = snprintf(ret, PATH_MAX, "%s", path) < PATH_MAX;
        }
    }
    if (file) {
        fclose(file);
    }
    return is_found;
}

/* Parses lines "ID PARENT DEV ROOT MOUNT OPTIONS ... - TYPE SOURCE SUPEROPTIONS"
 * (proc_pid_mountinfo(5)). root is the part of the hierarchy that is mounted. */
static bool mount_find(const char *controller, char root[PATH_MAX], char mount[PATH_MAX])
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char line[3 * PATH_MAX];
    bool is_found = false;
    while (file && !is_found && fgets(line, sizeof line, file)) {
        char type[32];
        char options[512];
        const char *rest = strstr(line, " - ");
        if (!rest || sscanf(rest, " - %31s %*s %511s", type, options) != 2 ||
            sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount) != 2) {
            continue;
        }
        is_found = controller ? strcmp(type, "cgroup") == 0 && list_has(options, controller)
                              : strcmp(type, "cgroup2") == 0;
    }
    if (file) {
        fclose(file);
    }
    return is_found;
}

bool cgroup_own(const char *controller, char ret[PATH_MAX])
{
    char path[PATH_MAX];
    char root[PATH_MAX];
    char mount[PATH_MAX];
    if (!path_find(controller, path) || !mount_find(controller, root, mount)) {
        return false;
    }
    /* In a container the mount may show only the part of the hierarchy below root. */
    const char *below = path;
    size_t n = strlen(root);
    if (strcmp(root, "/") != 0 && strncmp(path, root, n) == 0) {
        below = path + n;
    }
    if (snprintf(ret, PATH_MAX, "%s%s", mount, strcmp(below, "/") == 0 ? "" : below) >= PATH_MAX) {
        return false;
    }
    if (access(ret, F_OK) != 0) { /* the path is outside of the part that this mount shows */
        snprintf(ret, PATH_MAX, "%s", mount);
    }
    return true;
}

bool cgroup_up(char directory[PATH_MAX])
{
    char file[PATH_MAX + 32];
    char *slash = strrchr(directory, '/');
    if (!slash || slash == directory) {
        return false;
    }
    *slash = '\0';
    snprintf(file, sizeof file, "%s/cgroup.procs", directory);
    return access(file, F_OK) == 0;
}

bool cgroup_number(const char *directory, const char *name, const char *key, uint64_t *ret)
{
    char path[PATH_MAX + 64];
    char line[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "re");
    bool is_found = false;
    size_t n = key ? strlen(key) : 0;
    while (file && !is_found && fgets(line, sizeof line, file)) {
        if (key && (strncmp(line, key, n) != 0 || line[n] != ' ')) {
            continue;
        }
        const char *digits = key ? line + n + 1 : line;
        char *end;
        *ret = strtoull(digits, &end, 10);
        is_found = end != digits || strncmp(digits, "max", 3) == 0;
        if (end == digits) {
            *ret = UINT64_MAX;
        }
    }
    if (file) {
        fclose(file);
    }
    return is_found;
}
