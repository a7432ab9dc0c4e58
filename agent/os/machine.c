/* agent/os/machine.c: implementation of machine.h. */
#include "agent/os/machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/cgroup.h"

#define GPUS "/proc/driver/nvidia/gpus"
/* Timeout of nvidia-smi: an idle driver needs a second or two, and a hanging one must
 * not block the thread. */
#define SMI_MS 10000
#define SMI_POLL_MS 20
/* Depth of the process tree below a trainer that is counted, e.g. a shell and data loaders. */
#define DEPTH_MAX 4

/* --- devices --- */

uint32_t machine_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return (uint32_t)CPU_COUNT(&set);
    }
    /* the machine has more processors than a cpu_set_t holds */
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

uint32_t machine_gpus(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    uint32_t n = 0;
    if (visible) {
        /* CUDA stops at the first invalid name, so "-1" hides all GPUs. */
        for (const char *at = visible; *at && *at != '-' && *at != ','; n++) {
            at += strcspn(at, ",");
            at += *at == ',';
        }
        return n;
    }
    glob_t found;
    if (glob("/dev/nvidia[0-9]*", GLOB_NOSORT, NULL, &found) == 0) {
        n = (uint32_t)found.gl_pathc;
        globfree(&found);
    }
    return n;
}

/* --- GPUs --- */

/* Parses "Model: \t NVIDIA A100-SXM4-40GB". */
static void read_model(const char *entry, char ret[MACHINE_TEXT_MAX])
{
    char path[512];
    char line[256];
    (void)snprintf(path, sizeof(path), GPUS "/%s/information", entry);
    FILE *file = fopen(path, "re");
    while (file && ret[0] == '\0' && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "Model:", 6) == 0) {
            const char *at = line + 6 + strspn(line + 6, " \t");
            (void)snprintf(ret, MACHINE_TEXT_MAX, "%.*s", (int)strcspn(at, "\r\n"), at);
        }
    }
    if (file) {
        (void)fclose(file);
    }
}

/* Waits for the process to exit and kills it after SMI_MS. */
static void wait_for(pid_t pid)
{
    const struct timespec nap = {.tv_nsec = SMI_POLL_MS * 1000000L};
    for (int ms = 0; ms < SMI_MS; ms += SMI_POLL_MS) {
        if (waitpid(pid, NULL, WNOHANG) != 0) {
            return; /* the process has ended, or has already been reaped elsewhere */
        }
        (void)nanosleep(&nap, NULL);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* Returns the memory of the first GPU in MiB. nvidia-smi prints one line per GPU, which fits
 * into the pipe without a reader. */
static uint64_t ask_smi(void)
{
    char name[] = "nvidia-smi";
    char query[] = "--query-gpu=memory.total";
    char form[] = "--format=csv,noheader,nounits";
    char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *argv[] = {name, query, form, NULL};
    char *env[] = {path, NULL}; /* not the agent's environment, which may contain a token */
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    char text[64] = "";
    int ends[2];
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return 0;
    }
    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    (void)posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int rc = posix_spawnp(&pid, name, &actions, &attributes, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    (void)close(ends[1]);
    if (rc == 0) {
        wait_for(pid);
        ssize_t n = read(ends[0], text, sizeof(text) - 1);
        text[n > 0 ? n : 0] = '\0';
    }
    (void)close(ends[0]);
    return strtoull(text, NULL, 10);
}

void machine_read(struct machine *ret)
{
    cpu_set_t mine;
    uint64_t kib;
    *ret = (struct machine){.cores = 0};
    if (sched_getaffinity(0, sizeof(mine), &mine) == 0) {
        ret->cores = (uint32_t)CPU_COUNT(&mine);
    }
    if (cgroup_number("/proc", "meminfo", "MemTotal:", &kib)) {
        ret->memory_mib = kib >> 10;
    }
    DIR *gpus = opendir(GPUS);
    const struct dirent *entry;
    while (gpus && (entry = readdir(gpus)) != NULL) {
        if (entry->d_name[0] != '.' && ret->gpus++ == 0) {
            read_model(entry->d_name, ret->gpu);
        }
    }
    if (gpus) {
        (void)closedir(gpus);
    }
    if (ret->gpus > 0) {
        ret->gpu_memory_mib = ask_smi();
    }
}

uint32_t machine_load_milli(void)
{
    double load;
    return getloadavg(&load, 1) == 1 && load > 0 ? (uint32_t)(load * 1000) : 0;
}

/* --- activity of trainers --- */

/* Parses "RUN_NS WAIT_NS SLICES" of a thread. */
static uint64_t busy_of_thread(const char *path)
{
    char text[96];
    uint64_t run = 0;
    uint64_t waits = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    char *end;
    run = strtoull(text, &end, 10);
    waits = strtoull(end, NULL, 10);
    return (run + waits) / 1000;
}

static uint64_t busy_of(pid_t pid, unsigned depth)
{
    char path[64];
    uint64_t us = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    const struct dirent *entry;
    while (tasks && (entry = readdir(tasks)) != NULL) {
        char file[400];
        if (entry->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(file, sizeof(file), "%s/%s/schedstat", path, entry->d_name);
        us += busy_of_thread(file);
        (void)snprintf(file, sizeof(file), "%s/%s/children", path, entry->d_name);
        FILE *children = depth > 0 ? fopen(file, "re") : NULL;
        int child;
        while (children && fscanf(children, "%d", &child) == 1) { /* NOLINT(cert-err34-c): a pid */
            us += busy_of(child, depth - 1);
        }
        if (children) {
            (void)fclose(children);
        }
    }
    if (tasks) {
        (void)closedir(tasks);
    }
    return us;
}

static uint64_t io_of(pid_t pid)
{
    char path[64];
    char name[32];
    unsigned long long bytes;
    uint64_t all = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
    FILE *io = fopen(path, "re");
    /* Parses "rchar: 123" etc.; NOLINTNEXTLINE(cert-err34-c): numbers from the kernel */
    while (io && fscanf(io, "%31[a-z_]: %llu\n", name, &bytes) == 2) {
        bool counts = strcmp(name, "rchar") == 0 || strcmp(name, "wchar") == 0 ||
                      strcmp(name, "write_bytes") == 0;
        all += counts ? bytes : 0;
    }
    if (io) {
        (void)fclose(io);
    }
    return all;
}

uint64_t machine_io_bytes(const pid_t *pids, size_t n)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) {
        all += pids[i] > 0 ? io_of(pids[i]) : 0;
    }
    return all;
}

uint64_t machine_busy_us(const pid_t *pids, size_t n)
{
    uint64_t us = 0;
    for (size_t i = 0; i < n; i++) {
        us += pids[i] > 0 ? busy_of(pids[i], DEPTH_MAX) : 0;
    }
    return us;
}
