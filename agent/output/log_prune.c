/* agent/output/log_prune.c: removes old log files (JOB/run-N/epoch-E/rank-R.*, ps-I.*) and
 * leaves all other files alone. */
#include "agent/output/log_prune.h"

#include <fcntl.h>
#include <limits.h>
#include <regex.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/remove_tree.h"
#include "agent/output/log_place.h"
#include "common/base/id.h"

/* Kind of the entries of a directory. */
enum level { JOBS, RUNS, EPOCHS, FILES };

/* Names that the agent creates below a job's directory (see log_place.h). */
static const char *const patterns[] = {
    [JOBS] = "", /* checked as an id instead */
    [RUNS] = "^run-[0-9]+$",
    [EPOCHS] = "^epoch-[0-9]+$",
    [FILES] = "^(rank|chief|worker|ps|evaluator)-[0-9]+(-[0-9]+)?\\.(stdout|stderr)(\\.old)?$",
};
#define LEVELS (sizeof(patterns) / sizeof(patterns[0]))

struct pruning {
    int64_t before_s;
    unsigned budget;
    regex_t names[LEVELS];
};

static bool is_ours(const struct pruning *p, enum level level, const char *name)
{
    return level == JOBS ? id_is_valid(name) : regexec(&p->names[level], name, 0, NULL, 0) == 0;
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
        if (is_ours(p, level, entry->d_name) && level == FILES) {
            prune_file(p, folder, entry->d_name);
        } else if (is_ours(p, level, entry->d_name)) {
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

static bool has_patterns(struct pruning *p, size_t *ret)
{
    size_t n = 0;
    while (n < LEVELS && regcomp(&p->names[n], patterns[n], REG_EXTENDED | REG_NOSUB) == 0) {
        n++;
    }
    *ret = n;
    return n == LEVELS; /* without memory for the patterns, the next run prunes */
}

static void drop_patterns(struct pruning *p, size_t n)
{
    while (n > 0) {
        regfree(&p->names[--n]);
    }
}

bool log_prune(const char *root, struct tfe_wall before, unsigned budget)
{
    struct pruning p = {.before_s = before.ms / 1000, .budget = budget};
    DIR *entries = opendir(root);
    size_t n;
    if (has_patterns(&p, &n) && entries) {
        prune(&p, entries, JOBS);
    } else if (entries) {
        closedir(entries);
    }
    drop_patterns(&p, n);
    return !p.budget;
}

void log_prune_job(const char *root, const char *job)
{
    struct pruning p = {.before_s = INT64_MAX, .budget = UINT_MAX};
    DIR *jobs = opendir(root);
    DIR *runs = NULL;
    size_t n;
    if (has_patterns(&p, &n) && jobs && is_ours(&p, JOBS, job)) {
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
    drop_patterns(&p, n);
}
