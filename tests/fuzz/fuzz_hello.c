/* tests/fuzz/fuzz_hello.c: the two flights of the handshake. As they were made they are taken, with
 * any bit changed they are not, and nothing at all passes for one. The first byte says whether with
 * a token or an agent's own key, and which way the others go. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/handshake/handshake.h"
#include "tests/fuzz/fuzz.h"

#ifdef TFE_FUZZ_FAST
/* What is looked for is in our readers: ten times as many inputs a second with a group as good as a
 * curve for honest keys, and with memory that the sanitizer guards. */
#pragma GCC visibility push(default)
int crypto_scalarmult(unsigned char *q, const unsigned char *n, const unsigned char *p)
{
    unsigned char any = 0;
    for (size_t i = 0; i < crypto_scalarmult_BYTES; i++) {
        q[i] = n[i] ^ p[i];
        any |= q[i];
    }
    return any ? 0 : -1;
}

int crypto_scalarmult_base(unsigned char *q, const unsigned char *n)
{
    static const unsigned char base[crypto_scalarmult_BYTES] = {9};
    return crypto_scalarmult(q, n, base);
}

void *sodium_malloc(size_t n)
{
    return malloc(n);
}

void sodium_free(void *p)
{
    free(p);
}

int sodium_mprotect_readonly(void *p)
{
    (void)p;
    return 0;
}

int sodium_mprotect_readwrite(void *p)
{
    (void)p;
    return 0;
}
#pragma GCC visibility pop
#endif

static const struct handshake_params params = {.version_min = 1, .version_max = 1, .boot_nonce = 7};
static struct handshake_server *server;
/* Of both kinds: what opens a session, and a flight that nobody has answered. */
static struct opener {
    struct token token;
    uint8_t request[HANDSHAKE_REQUEST_MAX];
    size_t request_n;
} openers[2];

static struct handshake_client *start(const struct opener *by,
                                      uint8_t request[HANDSHAKE_REQUEST_MAX], size_t *ret_n)
{
    struct handshake_client *client = NULL;
    MUST(handshake_client_start(&by->token, &params, request, ret_n, &client) == 0);
    return client;
}

static void set_up(void)
{
    uint8_t key[32] = {1, 2, 3};
    uint8_t root[TOKEN_ROOT_BYTES] = {4, 5, 6};
    uint8_t public[TOKEN_PUBLIC_KEY_BYTES];
    MUST(sodium_init() >= 0);
    MUST(crypto_scalarmult_base(public, key) == 0);
    MUST(handshake_server_new(key, root, &server) == 0);
    token_mint(&openers[0].token, &(struct token_config){.role = PRINCIPAL_AGENT}, root, public);
    static struct node_key own = {.secret = {7, 8, 9}};
    struct principal by = {.role = PRINCIPAL_AGENT, .scope = PRINCIPAL_EVERY_JOB};
    MUST(crypto_scalarmult_base(public, own.secret) == 0);
    handshake_server_issue_key(server, public, (struct tfe_wall){1000000}, &by, &openers[1].token,
                               &own.certificate);
    openers[1].token.node_key = &own;
    for (size_t i = 0; i < 2; i++) {
        handshake_client_free(start(&openers[i], openers[i].request, &openers[i].request_n));
    }
}

static int answer(const uint8_t *in, size_t n, uint8_t out[HANDSHAKE_RESPONSE_MAX], size_t *ret_n)
{
    size_t used = 0;
    struct seal_session session;
    struct principal by;
    struct handshake_params client;
    int rc = handshake_server_answer(server, (struct tfe_wall){1000}, &params, in, n, &used, out,
                                     ret_n, &session, &by, &client);
    int knock = handshake_server_check_mac1(server, (struct tfe_wall){1000}, in, n);
    MUST(knock == rc || (knock == 0 && rc != TFE_EMORE));
    MUST(rc != 0 || (used <= n && by.role == PRINCIPAL_AGENT));
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

/* The first flight, changed. What is refused costs the server no curve operation. */
static void try_request(const struct opener *by, const uint8_t *change_by, size_t n)
{
    uint8_t request[HANDSHAKE_REQUEST_MAX];
    uint8_t response[HANDSHAKE_RESPONSE_MAX];
    size_t response_n = 0;
    memcpy(request, by->request, by->request_n);
    if (change(request, by->request_n, change_by, n)) {
        MUST(answer(request, by->request_n, response, &response_n) != 0);
    }
}

/* The second: changed, or something else altogether. */
static void try_response(const struct opener *by, bool is_random, const uint8_t *rest,
                         size_t rest_n)
{
    uint8_t request[HANDSHAKE_REQUEST_MAX];
    uint8_t response[HANDSHAKE_RESPONSE_MAX];
    size_t n = 0;
    size_t used = 0;
    struct seal_session session;
    struct handshake_params told;
    struct handshake_client *client = start(by, request, &n);
    bool wrong = true;
    if (!is_random) {
        MUST(answer(request, n, response, &n) == 0);
        wrong = change(response, n, rest, rest_n);
    }
    int rc = handshake_client_finish(client, is_random ? rest : response, is_random ? rest_n : n,
                                     &used, &session, &told);
    MUST((rc == 0) == !wrong);
    handshake_client_free(client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t response[HANDSHAKE_RESPONSE_MAX];
    size_t response_n = 0;
    if (!server) {
        set_up();
    }
    if (size == 0) {
        return 0;
    }
    const struct opener *by = &openers[data[0] / 4 % 2];
    const uint8_t *rest = data + 1;
    size_t rest_n = size - 1;
    switch (data[0] % 4) {
    case 0:
        MUST(answer(rest, rest_n, response, &response_n) != 0);
        break;
    case 1:
        try_request(by, rest, rest_n);
        break;
    default:
        try_response(by, data[0] % 4 == 3, rest, rest_n);
        break;
    }
    return 0;
}
