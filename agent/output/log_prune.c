/* agent/output/log_prune.c: JOB/run-N/epoch-E/rank-R.*: the old ones go, everything else stays. */
#include "agent/output/log_prune.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/output/log_place.h"

struct pruning {
    int64_t before_s;
    unsigned budget;
};

/* A folder below another, its entries. NULL: it is none. */
static DIR *open_below(int above, const char *name)
{
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries && fd >= 0) {
        close(fd);
    }
    return entries;
}

static void prune_epoch(struct pruning *p, int above, const char *name)
{
    DIR *entries = open_below(above, name);
    if (!entries) {
        return;
    }
    unsigned left = 0;
    struct stat st;
    for (const struct dirent *entry; p->budget && (entry = readdir(entries));) {
        const char *file = entry->d_name;
        if (strcmp(file, ".") == 0 || strcmp(file, "..") == 0) {
            continue;
        }
        if (log_name_is_file(file) &&
            fstatat(dirfd(entries), file, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            st.st_mtim.tv_sec < p->before_s && unlinkat(dirfd(entries), file, 0) == 0) {
            p->budget--;
        } else {
            left++;
        }
    }
    closedir(entries);
    if (!left && p->budget) {
        (void)unlinkat(above, name, AT_REMOVEDIR);
    }
}

static void prune_run(struct pruning *p, int above, const char *name)
{
    DIR *entries = open_below(above, name);
    if (!entries) {
        return;
    }
    for (const struct dirent *entry; p->budget && (entry = readdir(entries));) {
        if (log_name_is_epoch(entry->d_name)) {
            prune_epoch(p, dirfd(entries), entry->d_name);
        }
    }
    closedir(entries);
    (void)unlinkat(above, name, AT_REMOVEDIR); /* if it is empty */
}

static void prune_job(struct pruning *p, int above, const char *name)
{
    DIR *entries = open_below(above, name);
    if (!entries) {
        return;
    }
    for (const struct dirent *entry; p->budget && (entry = readdir(entries));) {
        if (log_name_is_run(entry->d_name)) {
            prune_run(p, dirfd(entries), entry->d_name);
        }
    }
    closedir(entries);
}

bool log_prune(const char *root, struct tfe_wall before, unsigned budget)
{
    struct pruning p = {.before_s = before.ms / 1000, .budget = budget};
    DIR *entries = opendir(root);
    if (!entries) {
        return false;
    }
    for (const struct dirent *entry; p.budget && (entry = readdir(entries));) {
        if (id_is_valid(entry->d_name) && entry->d_name[0] != '.') {
            prune_job(&p, dirfd(entries), entry->d_name);
        }
    }
    closedir(entries);
    return !p.budget;
}
