/* agent/os/machine.c: implementation of machine.h. */
#include "agent/os/machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/cgroup.h"

#define GPUS "/proc/driver/nvidia/gpus"
/* Timeout of nvidia-smi: an idle driver needs a second or two, and a hanging one must
 * not block the thread. */
#define SMI_S "10"
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

/* Returns the memory of the first GPU in MiB, from nvidia-smi, which prints one line per GPU. Its
 * environment is not the agent's, which may contain a token. */
static uint64_t read_gpu_memory(void)
{
    static const char command[] =
        "exec env -i PATH=\"$PATH\" timeout -s KILL " SMI_S
        " nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits </dev/null 2>/dev/null";
    char text[64] = "";
    FILE *output = popen(command, "re");
    if (output) {
        (void)!fgets(text, sizeof text, output);
        (void)pclose(output);
    }
    return strtoull(text, NULL, 10);
}

void machine_read(struct machine *ret)
{
    uint64_t kib;
    *ret = (struct machine){.cores = machine_processors()};
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
        ret->gpu_memory_mib = read_gpu_memory();
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
