/* tests/unit/channel/test_dial.c: names with several addresses, and a slow resolver. */
#include <net/if.h>
#include <netdb.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "common/base/clock.h"
#include "tests/unit/channel/socketpair.h"

/* Replaces libc's resolver. The test sets the addresses of the name and releases each response.
 * Runs in the channel's resolver thread. */
static struct {
    const char *addresses[4];
    atomic_bool waits;
    atomic_int asked;
    sem_t go;
} zone;

/* A response of one call: a static list would be shared by threads. */
struct answer {
    struct addrinfo info[4];
    struct sockaddr_in6 address[4];
};

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    const bool numeric = (hints->ai_flags & AI_NUMERICHOST) != 0;
    const char *const only[] = {name, NULL};
    const char *const *texts = numeric ? only : zone.addresses;
    if (!numeric) {
        (void)atomic_fetch_add(&zone.asked, 1);
        while (atomic_load(&zone.waits)) {
            (void)sem_wait(&zone.go);
        }
    }
    struct answer *answer = calloc(1, sizeof *answer);
    const uint16_t port = (uint16_t)strtoul(service, NULL, 10);
    size_t n = 0;
    for (; n < 4 && texts[n]; n++) {
        struct sockaddr_in6 *v6 = &answer->address[n];
        struct sockaddr_in *v4 = (struct sockaddr_in *)v6;
        struct addrinfo *info = &answer->info[n];
        info->ai_addr = (struct sockaddr *)v6;
        if (inet_pton(AF_INET, texts[n], &v4->sin_addr) == 1) {
            v4->sin_family = AF_INET;
            v4->sin_port = htons(port);
            info->ai_addrlen = sizeof *v4;
        } else if (inet_pton(AF_INET6, texts[n], &v6->sin6_addr) == 1) {
            v6->sin6_family = AF_INET6;
            v6->sin6_port = htons(port);
            info->ai_addrlen = sizeof *v6;
        } else {
            break;
        }
        info->ai_family = info->ai_addr->sa_family;
        if (n > 0) {
            answer->info[n - 1].ai_next = info;
        }
    }
    if (n == 0) {
        free(answer);
        return EAI_NONAME;
    }
    *ret = &answer->info[0];
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    free(list); /* the first member of struct answer */
}

static struct world world;

static int make(void **state)
{
    (void)state;
    memset(zone.addresses, 0, sizeof zone.addresses);
    atomic_store(&zone.waits, false);
    atomic_store(&zone.asked, 0);
    world_make(&world);
    return 0;
}

static int end(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

static void dial(uint32_t timeout_ms)
{
    assert_int_equal(
        INSIDE(channel_connect(world.base, "fleet.example", listener_port(world.listener),
                               &world.token, &world.client_params, timeout_ms, &side_ops,
                               &world.client, &world.client.ch)),
        0);
}

/* Returns the address at which the client has reached the server. */
static uint32_t reached_v4(void)
{
    struct sockaddr_storage end;
    assert_true(channel_local_address(world.server.ch, &end));
    assert_int_equal(end.ss_family, AF_INET);
    return ntohl(((struct sockaddr_in *)&end)->sin_addr.s_addr);
}

#define FIXTURE make, end

TEST_IN(dial, v4_comes_first_and_the_next_address_follows_a_refusal)
{
    /* Nothing listens on 127.0.0.9. The v6 address would be refused too, and reported first if it
     * were tried first. */
    zone.addresses[0] = "::1";
    zone.addresses[1] = "127.0.0.9";
    zone.addresses[2] = "127.0.0.1";
    dial(HANDSHAKE_MS);
    RUN_UNTIL(&world, world.client.established == 1);
    assert_int_equal(reached_v4(), INADDR_LOOPBACK);
}

TEST_IN(dial, when_all_fail_the_first_is_named)
{
    zone.addresses[0] = "::1";
    zone.addresses[1] = "127.0.0.9";
    zone.addresses[2] = "127.0.0.8";
    dial(HANDSHAKE_MS);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_int_equal(world.client.end, CHANNEL_UNREACHABLE);
    assert_memory_equal(world.client.detail, "connect to 127.0.0.9 port ", 26);
}

/* A listening socket with a full backlog: the kernel drops new connections. */
struct deaf {
    int listening;
    int fillers[8];
};

static void deaf_make(struct deaf *deaf, const char *address, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    deaf->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(deaf->listening, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(deaf->listening, 0), 0);
    for (size_t i = 0; i < 8; i++) {
        deaf->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(deaf->fillers[i], (struct sockaddr *)&at, sizeof at);
    }
}

static void deaf_end(struct deaf *deaf)
{
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(close(deaf->fillers[i]), 0);
    }
    assert_int_equal(close(deaf->listening), 0);
}

TEST_IN(dial, an_address_that_is_silent_gets_its_share_of_the_time_only)
{
    struct deaf deaf;
    deaf_make(&deaf, "127.0.0.9", listener_port(world.listener));
    zone.addresses[0] = "127.0.0.9";
    zone.addresses[1] = "127.0.0.1";
    const struct tfe_mono begun = clock_mono();
    dial(3000); /* half of it is enough for a busy machine */
    RUN_UNTIL(&world, world.client.established == 1 || world.client.closed == 1);
    assert_int_equal(world.client.established, 1);
    assert_in_range(tfe_mono_sub(clock_mono(), begun), 1450, 3000);
    assert_int_equal(reached_v4(), INADDR_LOOPBACK);
    deaf_end(&deaf);
}

TEST_IN(dial, silence_everywhere_is_a_timeout)
{
    struct deaf deaf;
    deaf_make(&deaf, "127.0.0.9", listener_port(world.listener));
    zone.addresses[0] = "127.0.0.9";
    zone.addresses[1] = "127.0.0.8";
    dial(100);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_int_equal(world.client.end, CHANNEL_TIMEOUT);
    assert_non_null(strstr(world.client.detail, "connect to 127.0.0.9 port "));
    assert_non_null(strstr(world.client.detail, "timed out"));
    deaf_end(&deaf);
}

/* Releases n waiting look-ups and all later ones. */
static void answer_all(int n)
{
    atomic_store(&zone.waits, false);
    for (int i = 0; i < n; i++) {
        assert_int_equal(sem_post(&zone.go), 0);
    }
}

/* Waits until n threads are inside getaddrinfo. */
static void wait_asked(int n)
{
    const time_t last = time(NULL) + DEADLINE_S;
    while (atomic_load(&zone.asked) < n && time(NULL) < last) {
        (void)sched_yield();
    }
    assert_int_equal(atomic_load(&zone.asked), n);
}

TEST_IN(dial, the_loop_runs_while_the_resolver_thinks)
{
    zone.addresses[0] = "127.0.0.1";
    atomic_store(&zone.waits, true);
    dial(HANDSHAKE_MS);
    wait_asked(1);
    world_settle(&world);
    assert_int_equal(world.client.established + world.client.closed, 0);
    answer_all(1);
    RUN_UNTIL(&world, world.client.established == 1);
}

TEST_IN(dial, a_name_that_is_not_answered_in_time_is_a_timeout)
{
    zone.addresses[0] = "127.0.0.1";
    atomic_store(&zone.waits, true);
    dial(30);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_int_equal(world.client.end, CHANNEL_TIMEOUT);
    assert_string_equal(world.client.detail, "the name was not resolved in time");
    /* The response comes after the channel has stopped waiting. */
    answer_all(1);
}

TEST_IN(dial, an_answer_that_is_due_may_be_freed)
{
    zone.addresses[0] = "127.0.0.1";
    atomic_store(&zone.waits, true);
    dial(HANDSHAKE_MS);
    wait_asked(1);
    const unsigned open_before = open_files();
    side_free(&world.client);
    answer_all(1);
    /* The loop runs past the moment of the response. */
    const time_t last = time(NULL) + DEADLINE_S;
    while (open_files() == open_before && time(NULL) < last) {
        world_settle(&world);
    }
    world_settle(&world);
    assert_int_equal(world.client.established + world.client.closed, 0);
}

TEST_IN(dial, unanswered_questions_are_bounded)
{
    static struct side sides[10];
    zone.addresses[0] = "127.0.0.1";
    atomic_store(&zone.waits, true);
    for (size_t i = 0; i < 10; i++) {
        const int rc = INSIDE(channel_connect(world.base, "fleet.example", 1, &world.token,
                                              &world.client_params, HANDSHAKE_MS, &side_ops,
                                              &sides[i], &sides[i].ch));
        assert_int_equal(rc, i < 8 ? 0 : TFE_ESYS);
    }
    wait_asked(8);
    for (size_t i = 0; i < 8; i++) {
        side_free(&sides[i]);
    }
    answer_all(8);
}

TEST_IN(dial, an_unknown_name_says_so)
{
    dial(HANDSHAKE_MS);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_int_equal(world.client.end, CHANNEL_UNREACHABLE);
    assert_memory_equal(world.client.detail, "fleet.example: ", 15);
}

static int opened_when_closed;

static void open_something(struct side *side, const struct tfe_msg *msg)
{
    (void)side;
    (void)msg;
    opened_when_closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

TEST_IN(dial, a_failed_socket_is_closed_once)
{
    /* The descriptor number is reused at once; a second close would close the new file. */
    zone.addresses[0] = "127.0.0.9";
    world.client.on_closed = open_something;
    dial(HANDSHAKE_MS);
    RUN_UNTIL(&world, world.client.closed == 1);
    assert_true(fcntl(opened_when_closed, F_GETFD) >= 0);
    assert_int_equal(close(opened_when_closed), 0);
}

TEST_IN(dial, that_cannot_begin_leaves_nothing)
{
    world.client_params.version_min = world.client_params.version_max + 1;
    assert_int_equal(
        INSIDE(channel_connect(world.base, "127.0.0.1", 1, &world.token, &world.client_params,
                               HANDSHAKE_MS, &side_ops, &world.client, &world.client.ch)),
        TFE_EINVAL);
}

/* Runs in a network namespace with a single ephemeral port, so that the kernel connects the socket
 * to itself if no server listens on that port. */
static int dial_itself(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int range = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC);
    if (ioctl(fd, SIOCSIFFLAGS, &lo) != 0 || range < 0) {
        return 77;
    }
    world_make(&world);
    if (write(range, "40000 40000", 11) != 11) {
        return 77;
    }
    assert_int_equal(channel_connect(world.base, "127.0.0.1", 40000, &world.token,
                                     &world.client_params, HANDSHAKE_MS, &side_ops, &world.client,
                                     &world.client.ch),
                     0);
    RUN_UNTIL(&world, world.client.closed == 1);
    return world.client.end == CHANNEL_UNREACHABLE ? 0 : 1;
}

TEST(dial, does_not_take_itself_for_the_server)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        _exit(unshare(CLONE_NEWNET) != 0 ? 77 : dial_itself());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        SKIP("making a network namespace takes privileges");
    }
    assert_int_equal(status, 0);
}

int main(void)
{
    (void)sem_init(&zone.go, 0, 0);
    return stories_run(NULL, NULL);
}
