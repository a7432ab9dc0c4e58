/* tests/unit/agent/test_ports.c: reserving port numbers on which nothing listens. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/ports.h"
#include "tests/unit/test_runner.h"

static struct sockaddr_in address(uint32_t host, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(host)};
}

/* Returns a socket bound to the port with these options, or -1 with errno. */
static int bound(uint16_t port, bool share, bool listening)
{
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in any = address(INADDR_ANY, port);
    if (share) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&any, sizeof any) != 0 || (listening && listen(fd, 128) != 0)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int dial(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in here = address(INADDR_LOOPBACK, port);
    int rc = connect(fd, (struct sockaddr *)&here, sizeof here) == 0 ? 0 : errno;
    close(fd);
    return rc;
}

static struct ports *make(uint32_t nproc, uint16_t fixed)
{
    struct ports *ports;
    struct tfe_reason reason;
    assert_int_equal(ports_new(nproc, fixed, &ports, &reason), 0);
    return ports;
}

static void hold(struct ports *ports, uint64_t epoch, bool fresh, uint16_t *ret, uint32_t nproc)
{
    const uint16_t *numbers;
    struct tfe_reason reason;
    assert_int_equal(ports_hold(ports, epoch, fresh, &numbers, &reason), 0);
    memcpy(ret, numbers, nproc * sizeof *ret);
}

/* Returns the first of n consecutive numbers that seem free, in a range that other runs of this
 * program do not use. */
static uint16_t free_run(uint32_t n)
{
    uint16_t first = (uint16_t)(21000 + (uint32_t)getpid() % 500 * 16);
    for (uint16_t port = first; port < 31000; port = (uint16_t)(port + n)) {
        uint32_t good = 0;
        while (good < n) {
            int fd = bound((uint16_t)(port + good), false, false);
            if (fd < 0) {
                break;
            }
            close(fd);
            good++;
        }
        if (good == n) {
            return port;
        }
    }
    fail_msg("no free ports");
    return 0;
}

TEST(ports, reserved_port_refuses_connections_and_binds)
{
    uint16_t numbers[4];
    struct ports *ports = make(4, 0);
    hold(ports, 1, false, numbers, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_not_equal(numbers[i], 0);
        assert_int_equal(dial(numbers[i]), ECONNREFUSED);
        assert_int_equal(bound(numbers[i], false, false), -1);
        assert_int_equal(errno, EADDRINUSE);
    }
    ports_free(ports);
}

TEST(ports, trainer_process_listens_on_a_reserved_port)
{
    uint16_t number;
    int ready[2];
    struct ports *ports = make(1, 0);
    hold(ports, 1, false, &number, 1);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        ports_free(ports); /* trainers do not inherit the agent's descriptors */
        char ok = bound(number, true, true) >= 0 ? 'y' : 'n';
        (void)!write(ready[1], &ok, 1);
        for (;;) {
            pause();
        }
    }
    char ok;
    assert_int_equal(read(ready[0], &ok, 1), 1);
    assert_int_equal(ok, 'y');
    /* The reserving socket must not receive any of the connections. */
    for (int i = 0; i < 32; i++) {
        assert_int_equal(dial(number), 0);
    }
    ports_release(ports, 1);
    assert_int_equal(dial(number), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    uint16_t again;
    hold(ports, 3, false, &again, 1);
    assert_int_equal(again, number);
    assert_int_equal(dial(number), ECONNREFUSED);
    ports_free(ports);
    close(ready[0]);
    close(ready[1]);
}

/* Checks that the numbers for odd and even epochs differ in the last bit only. */
static void assert_pairs(const uint16_t *odd, const uint16_t *even, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(odd[i] & 1, 1);
        assert_int_equal(odd[i] ^ 1, even[i]);
    }
}

TEST(ports, odd_and_even_epochs_alternate_and_fresh_ports_are_new)
{
    uint16_t odd[3];
    uint16_t even[3];
    uint16_t now[3];
    struct ports *ports = make(3, 0);
    hold(ports, 1, false, odd, 3);
    hold(ports, 2, false, even, 3);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            assert_int_not_equal(odd[i], even[k]);
            assert_true(i == k || odd[i] != odd[k]);
        }
    }
    assert_pairs(odd, even, 3);
    ports_release(ports, 1);
    hold(ports, 3, false, now, 3);
    assert_memory_equal(now, odd, sizeof odd);
    hold(ports, 4, false, now, 3);
    assert_memory_equal(now, even, sizeof even);
    uint16_t fresh[3];
    hold(ports, 5, true, fresh, 3);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            assert_int_not_equal(fresh[i], odd[k]);
            assert_int_not_equal(fresh[i], even[k]);
        }
    }
    /* Epoch 4 keeps its own numbers until the other parity is needed again: the other
     * halves of the pairs. */
    assert_int_equal(bound(even[0], false, false), -1);
    ports_release(ports, 4);
    hold(ports, 6, false, now, 3);
    assert_pairs(fresh, now, 3);
    hold(ports, 7, false, now, 3);
    assert_memory_equal(now, fresh, sizeof fresh);
    ports_free(ports);
}

/* Halves of the other parity are taken over once; later the set is reserved as usual. */
TEST(ports, ports_of_the_other_parity_are_reserved_again)
{
    uint16_t fresh[2];
    uint16_t now[2];
    uint16_t again[2];
    struct ports *ports = make(2, 0);
    hold(ports, 5, true, fresh, 2);
    hold(ports, 6, false, now, 2);
    assert_pairs(fresh, now, 2);
    ports_release(ports, 6);
    hold(ports, 8, false, again, 2);
    assert_memory_equal(again, now, sizeof now);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bound(now[i], false, false), -1);
    }
    ports_free(ports);
}

TEST(ports, fresh_ports_for_both_parities_are_the_newest)
{
    uint16_t odd[2];
    uint16_t even[2];
    uint16_t now[2];
    struct ports *ports = make(2, 0);
    hold(ports, 5, true, odd, 2);
    hold(ports, 6, true, even, 2); /* the halves that 5 chose for it are not needed any more */
    ports_release(ports, 6);
    hold(ports, 8, false, now, 2);
    assert_memory_equal(now, even, sizeof even);
    ports_release(ports, 5);
    hold(ports, 7, false, now, 2);
    assert_pairs(now, even, 2);
    ports_free(ports);
}

/* Two agents of one user could share each other's sockets by SO_REUSEPORT. */
TEST(ports, two_agents_never_reserve_the_same_port)
{
    struct ports *all[40];
    static uint16_t taken[80 * 8];
    size_t n = 0;
    for (size_t i = 0; i < 40; i++) {
        all[i] = make(8, 0);
        for (uint64_t epoch = 1; epoch <= 2; epoch++) {
            hold(all[i], epoch, false, taken + n, 8);
            for (size_t k = 0; k < n; k++) {
                for (size_t j = n; j < n + 8; j++) {
                    assert_int_not_equal(taken[k], taken[j]);
                }
            }
            n += 8;
        }
    }
    for (size_t i = 0; i < 40; i++) {
        ports_free(all[i]);
    }
}

/* Released numbers are not reserved while the other parity trains. */
TEST(ports, port_taken_by_another_agent_is_not_shared)
{
    uint16_t before;
    uint16_t after;
    struct ports *ports = make(1, 0);
    hold(ports, 1, false, &before, 1);
    ports_release(ports, 1);
    struct ports *other = make(1, before);
    hold(ports, 3, false, &after, 1);
    assert_int_not_equal(after, before);
    ports_free(other);
    ports_free(ports);
}

/* main checks that no descriptor is left open. */
TEST(ports, repeated_reservation_leaks_no_descriptor)
{
    uint16_t numbers[2];
    struct ports *ports = make(2, 0);
    for (uint64_t epoch = 1; epoch < 20; epoch++) {
        hold(ports, epoch, epoch % 5 == 0, numbers, 2);
        assert_int_equal(dial(numbers[0]), ECONNREFUSED);
        uint16_t port;
        assert_false(ports_still_accepting(ports, epoch, &port));
        ports_release(ports, epoch);
    }
    ports_free(ports);
}

TEST(ports, lost_port_is_replaced)
{
    uint16_t before[2];
    uint16_t after[2];
    struct ports *ports = make(2, 0);
    hold(ports, 1, false, before, 2);
    ports_release(ports, 1);
    int thief = bound(before[0], false, true);
    assert_true(thief >= 0);
    hold(ports, 3, false, after, 2);
    assert_int_not_equal(after[0], before[0]);
    assert_int_equal(after[1], before[1]);
    close(thief);
    ports_free(ports);
}

TEST(ports, fixed_ports_are_used_in_every_epoch)
{
    uint16_t numbers[3];
    uint16_t first = free_run(3);
    struct ports *ports = make(3, first);
    for (uint64_t epoch = 1; epoch < 4; epoch++) {
        hold(ports, epoch, epoch == 3, numbers, 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(numbers[i], first + i);
        }
        ports_release(ports, epoch);
    }
    ports_free(ports);
}

TEST(ports, fixed_port_in_use_is_named)
{
    struct ports *ports = NULL;
    struct tfe_reason reason;
    uint16_t first = free_run(3);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "port %d is in use", first + 2);
    /* A listener, a socket that shares, and one that is only bound, as another agent's. */
    for (int how = 0; how < 2; how++) {
        int other = bound((uint16_t)(first + 2), how == 1, true);
        assert_true(other >= 0);
        assert_int_equal(ports_new(3, first, &ports, &reason), TFE_ESYS);
        assert_string_equal(reason.text, wanted);
        close(other);
    }
    struct ports *agent = make(1, (uint16_t)(first + 2));
    assert_int_equal(ports_new(3, first, &ports, &reason), TFE_ESYS);
    assert_string_equal(reason.text, wanted);
    ports_free(agent);
    ports = make(3, first);
    /* Taken by another process after the release. */
    const uint16_t *numbers;
    ports_release(ports, 1);
    int thief = bound((uint16_t)(first + 2), false, true);
    assert_int_equal(ports_hold(ports, 2, false, &numbers, &reason), TFE_ESYS);
    assert_string_equal(reason.text, wanted);
    close(thief);
    assert_int_equal(ports_hold(ports, 2, false, &numbers, &reason), 0);
    ports_free(ports);
    assert_int_equal(ports_new(2, 65535, &ports, &reason), TFE_EINVAL);
}

/* A connection closed first by the server stays on the server's port for a minute. */
TEST(ports, fixed_port_is_usable_despite_time_wait)
{
    uint16_t port = free_run(1);
    int server = bound(port, false, true);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in here = address(INADDR_LOOPBACK, port);
    assert_int_equal(connect(client, (struct sockaddr *)&here, sizeof here), 0);
    int conn = accept(server, NULL, NULL);
    close(conn);
    char c;
    assert_int_equal(read(client, &c, 1), 0);
    close(client);
    close(server);
    struct ports *ports = make(1, port);
    ports_free(ports);
}

TEST(ports, surviving_listener_is_found)
{
    uint16_t numbers[2];
    uint16_t found = 0;
    struct ports *ports = make(2, 0);
    hold(ports, 1, false, numbers, 2);
    assert_false(ports_still_accepting(ports, 1, &found));
    int survivor = bound(numbers[1], true, true);
    assert_true(survivor >= 0);
    assert_true(ports_still_accepting(ports, 1, &found));
    assert_int_equal(found, numbers[1]);
    assert_false(ports_still_accepting(ports, 2, &found));
    ports_release(ports, 1);
    assert_true(ports_still_accepting(ports, 1, &found));
    close(survivor);
    assert_false(ports_still_accepting(ports, 1, &found));
    ports_free(ports);
}

/* Limits the kernel's choice of numbers, in a separate network namespace. */
static bool choose_from(uint16_t first, uint16_t last)
{
    char range[32];
    int n = snprintf(range, sizeof range, "%u %u", (unsigned)first, (unsigned)last);
    int file = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC);
    bool is_written = file >= 0 && write(file, range, (size_t)n) == n;
    close(file);
    return is_written;
}

/* The kernel can choose only one number for the local end of a connection. */
static int connect_to_itself(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    const uint16_t *numbers;
    struct ports *ports;
    struct tfe_reason reason;
    uint16_t found;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ioctl(fd, SIOCSIFFLAGS, &lo) != 0 || ports_new(1, 0, &ports, &reason) != 0 ||
        ports_hold(ports, 1, false, &numbers, &reason) != 0) {
        return 77;
    }
    uint16_t number = numbers[0];
    ports_release(ports, 1);
    if (!choose_from(number, number)) {
        return 77;
    }
    int rc = ports_still_accepting(ports, 1, &found) ? 1 : 0;
    if (rc == 0 && dial(number) != 0) {
        rc = 2; /* the test's preparation failed */
    }
    ports_free(ports);
    close(fd);
    return rc;
}

/* All neighbouring numbers are taken and no number is left for a second attempt: the error must
 * leave no descriptor open. */
static int run_out_of_numbers(void)
{
    enum { PAIRS = 33, FIRST = 40000 }; /* one more than the maximum number of attempts */
    struct ports *ports;
    struct tfe_reason reason;
    int open = 0;
    for (uint16_t i = 0; i < PAIRS; i++) {
        if (bound((uint16_t)(FIRST + 2 * i + 1), false, false) < 0) {
            return 77;
        }
    }
    if (!choose_from(FIRST, FIRST + 2 * PAIRS - 1)) {
        return 77;
    }
    for (int fd = 0; fd < 256; fd++) {
        open -= fcntl(fd, F_GETFD) >= 0;
    }
    if (ports_new(1, 0, &ports, &reason) != TFE_ESYS) {
        return 2; /* the test's preparation failed */
    }
    for (int fd = 0; fd < 256; fd++) {
        open += fcntl(fd, F_GETFD) >= 0;
    }
    return open;
}

static void in_own_network(int (*act)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(unshare(CLONE_NEWNET) != 0 ? 77 : act());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        SKIP("making a network namespace takes privileges");
    }
    assert_int_equal(status, 0);
}

TEST(ports, self_connected_socket_is_no_survivor)
{
    in_own_network(connect_to_itself);
}

TEST(ports, exhausted_ports_leak_no_descriptor)
{
    in_own_network(run_out_of_numbers);
}

TEST(ports, busy_surviving_listener_is_found)
{
    uint16_t number;
    uint16_t found = 0;
    int clients[32];
    struct ports *ports = make(1, 0);
    hold(ports, 1, false, &number, 1);
    int survivor = bound(number, true, false);
    assert_int_equal(listen(survivor, 0), 0);
    /* Fill the accept queue, so that the kernel drops further connections. */
    struct sockaddr_in here = address(INADDR_LOOPBACK, number);
    for (int i = 0; i < 32; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(clients[i], (struct sockaddr *)&here, sizeof here);
    }
    assert_true(ports_still_accepting(ports, 1, &found));
    assert_int_equal(found, number);
    for (int i = 0; i < 32; i++) {
        close(clients[i]);
    }
    close(survivor);
    ports_free(ports);
}
