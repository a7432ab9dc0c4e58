/* tests/fuzz/fuzz_hello.c: the two flights of the handshake. As they were made they are taken, with
 * any bit changed they are not, and nothing at all passes for one. The first byte says which way
 * the others go. */
#include <sodium.h>
#include <string.h>

#include "common/wire/hello.h"
#include "tests/fuzz/fuzz.h"

static const struct hello_facts facts = {.version_min = 1, .version_max = 1, .boot_nonce = 7};
static struct hello_server *server;
static struct token token;

static void set_up(void)
{
    uint8_t key[32] = {1, 2, 3};
    uint8_t root[TOKEN_ROOT_BYTES] = {4, 5, 6};
    uint8_t public[TOKEN_PUBLIC_KEY_BYTES];
    MUST(sodium_init() >= 0);
    MUST(crypto_scalarmult_base(public, key) == 0);
    token_mint(&token, TOKEN_AGENT, (struct tfe_wall){0}, root, public);
    MUST(hello_server_new(key, root, &server) == 0);
}

static int answer(const uint8_t *in, size_t n, uint8_t out[HELLO_RESPONSE_MAX], size_t *ret_n)
{
    size_t used = 0;
    struct seal_session session;
    enum token_role role;
    struct hello_facts client;
    int rc = hello_server_answer(server, (struct tfe_wall){1000}, &facts, in, n, &used, out, ret_n,
                                 &session, &role, &client);
    MUST(rc != 0 || (used <= n && role == TOKEN_AGENT));
    return rc;
}

/* XORs the change into the flight. Whether it is another one then. */
static bool change(uint8_t *flight, size_t n, const uint8_t *by, size_t by_n)
{
    bool changed = false;
    for (size_t i = 0; i < n && i < by_n; i++) {
        flight[i] ^= by[i];
        changed = changed || by[i] != 0;
    }
    return changed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t request[HELLO_REQUEST_MAX];
    uint8_t response[HELLO_RESPONSE_MAX];
    size_t request_n = 0;
    size_t response_n = 0;
    if (!server) {
        set_up();
    }
    if (size == 0) {
        return 0;
    }
    const uint8_t *rest = data + 1;
    size_t rest_n = size - 1;
    if (data[0] % 4 == 0) {
        MUST(answer(rest, rest_n, response, &response_n) != 0);
        return 0;
    }
    struct hello_client *client = NULL;
    MUST(hello_client_start(&token, &facts, request, &request_n, &client) == 0);
    bool wrong = data[0] % 4 == 1 && change(request, request_n, rest, rest_n);
    MUST((answer(request, request_n, response, &response_n) == 0) == !wrong);
    if (!wrong) {
        struct seal_session session;
        struct hello_facts told;
        size_t used = 0;
        bool is_random = data[0] % 4 == 3;
        wrong = is_random || (data[0] % 4 == 2 && change(response, response_n, rest, rest_n));
        int rc = is_random
                     ? hello_client_finish(client, rest, rest_n, &used, &session, &told)
                     : hello_client_finish(client, response, response_n, &used, &session, &told);
        MUST((rc == 0) == !wrong);
    }
    hello_client_free(client);
    return 0;
}
