/* agent/output/log_prune.c: removes old log files (JOB/run-N/epoch-E/rank-R.*, ps-I.*) and
 * leaves all other files alone. */
#include "agent/output/log_prune.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/remove_tree.h"
#include "agent/output/log_place.h"
#include "common/base/id.h"

/* Kind of the entries of a directory. */
enum level { JOBS, RUNS, EPOCHS, FILES };

struct pruning {
    int64_t before_s;
    unsigned budget;
};

/* Returns true if the agent creates such names at this level. */
static bool is_ours(enum level level, const char *name)
{
    uint64_t number;
    struct log_name parts;
    switch (level) {
    case JOBS:
        return id_is_valid(name);
    case RUNS:
        return log_folder_parse(name, "run-", &number);
    case EPOCHS:
        return log_folder_parse(name, "epoch-", &number);
    case FILES:
        return log_name_parse(name, &parts);
    }
    return false;
}

static void prune_file(struct pruning *p, int folder, const char *name)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        st.st_mtim.tv_sec < p->before_s && unlinkat(folder, name, 0) == 0) {
        p->budget--;
    }
}

/* Prunes one directory and closes entries. */
static void prune(struct pruning *p, DIR *entries, enum level level)
{
    int folder = dirfd(entries);
    for (const struct dirent *entry; p->budget && (entry = readdir(entries));) {
        DIR *below = NULL;
        if (is_ours(level, entry->d_name) && level == FILES) {
            prune_file(p, folder, entry->d_name);
        } else if (is_ours(level, entry->d_name)) {
            below = entries_open(folder, entry->d_name);
        }
        if (below) {
            prune(p, below, level + 1);
        }
        if (below && level != JOBS) {
            /* fails unless the directory is empty */
            (void)unlinkat(folder, entry->d_name, AT_REMOVEDIR);
        }
    }
    closedir(entries);
}

bool log_prune(const char *root, struct tfe_wall before, unsigned budget)
{
    struct pruning p = {.before_s = before.ms / 1000, .budget = budget};
    DIR *entries = opendir(root);
    if (entries) {
        prune(&p, entries, JOBS);
    }
    return !p.budget;
}

void log_prune_job(const char *root, const char *job)
{
    struct pruning p = {.before_s = INT64_MAX, .budget = UINT_MAX};
    DIR *jobs = opendir(root);
    DIR *runs = NULL;
    if (jobs && is_ours(JOBS, job)) {
        runs = entries_open(dirfd(jobs), job);
    }
    if (runs) {
        prune(&p, runs, RUNS);
        int folder = openat(dirfd(jobs), job, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder >= 0) {
            (void)unlinkat(folder, LOG_LATEST, 0);
            (void)close(folder);
        }
        (void)unlinkat(dirfd(jobs), job, AT_REMOVEDIR);
    }
    if (jobs) {
        closedir(jobs);
    }
}
