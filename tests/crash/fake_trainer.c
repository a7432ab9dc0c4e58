/* tests/crash/fake_trainer.c: a trainer that costs nothing, trains in step with its peers, and
 * writes down when.
 *
 * Usage: fake_trainer DIRECTORY. A step is what a synchronous collective makes it: it ends when all
 * members of the epoch have ended the one before, which they see in DIRECTORY/epoch.E, a counter
 * for each rank. So a trainer whose peers are gone is there, and trains no more, as TensorFlow's.
 * DIRECTORY/log.E.RANK.PID gets one line:
 *
 *     epoch rank world node pid start_us steps first_step_us last_step_us
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STEP_US 5000
#define WORLD_MAX 4096

static int64_t now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void fail(const char *what)
{
    (void)fprintf(stderr, "fake_trainer: %s: %s\n", what, strerror(errno));
    exit(9);
}

static const char *need(const char *name)
{
    const char *value = getenv(name);
    if (!value) {
        (void)fprintf(stderr, "fake_trainer: no %s\n", name);
        exit(9);
    }
    return value;
}

/* The port of entry `rank` of the one list of addresses in TF_CONFIG. */
static uint16_t own_port(const char *config, unsigned long rank)
{
    const char *at = strchr(config, '[');
    for (unsigned long i = 0; at; i++) {
        at = strchr(at, '"');
        const char *end = at ? strchr(at + 1, '"') : NULL;
        if (!end) {
            break;
        }
        if (i == rank) {
            while (end[-1] >= '0' && end[-1] <= '9') {
                end--;
            }
            return (uint16_t)strtoul(end, NULL, 10);
        }
        at = end + 1;
    }
    (void)fprintf(stderr, "fake_trainer: no rank %lu in %s\n", rank, config);
    exit(9);
}

static void listen_on(uint16_t port)
{
    static const int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) != 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 16) != 0) {
        fail("listen");
    }
}

static atomic_ullong *open_counters(const char *directory, const char *epoch)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/epoch.%s", directory, epoch);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    size_t n = WORLD_MAX * sizeof(atomic_ullong);
    if (fd < 0 || ftruncate(fd, (off_t)n) != 0) {
        fail(path);
    }
    void *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        fail(path);
    }
    (void)close(fd);
    return at;
}

/* SIGUSR1: the machine wants it gone, as TensorFlow's own handler says it. */
static void on_preempted(int number)
{
    (void)number;
    _exit(143);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: fake_trainer DIRECTORY\n");
        return 2;
    }
    const char *epoch = need("TFE_EPOCH");
    unsigned long rank = strtoul(need("TFE_RANK"), NULL, 10);
    unsigned long world = strtoul(need("TFE_WORLD_SIZE"), NULL, 10);
    const char *node = need("TFE_NODE");
    (void)signal(SIGUSR1, on_preempted);
    if (rank >= world || world > WORLD_MAX) {
        (void)fprintf(stderr, "fake_trainer: rank %lu of %lu\n", rank, world);
        return 9;
    }
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/log.%s.%lu.%ld", argv[1], epoch, rank, (long)getpid());
    int log = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (log < 0) {
        fail(path);
    }
    int64_t started = now_us();
    int64_t first = 0;
    int64_t last = 0;
    unsigned long long steps = 0;
    listen_on(own_port(need("TF_CONFIG"), rank));
    atomic_ullong *counters = open_counters(argv[1], epoch);
    for (;;) {
        char line[512];
        int n = snprintf(line, sizeof(line), "%s %lu %lu %s %ld %lld %10llu %20lld %20lld\n", epoch,
                         rank, world, node, (long)getpid(), (long long)started, steps,
                         (long long)first, (long long)last);
        if (pwrite(log, line, (size_t)n, 0) != n) {
            fail(path);
        }
        bool all = false;
        while (!all) {
            (void)usleep(STEP_US);
            all = true;
            /* Being there is the first thing that all have to do. */
            for (unsigned long i = 0; i < world; i++) {
                all = all && (i == rank || atomic_load(&counters[i]) >= steps + 1);
            }
            atomic_store(&counters[rank], steps + 1);
        }
        steps++;
        last = now_us();
        first = first != 0 ? first : last;
    }
}
