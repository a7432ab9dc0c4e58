/* common/credentials/enrollment.c: requests, stores and renews the agent's own key. */
#include "common/credentials/enrollment.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/limits.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/cli/secret_mem.h"
#include "common/credentials/state_dir.h"
#include "common/handshake/certificate.h"

/* Random delay of the first request after a session began, so that a fleet that starts together
 * does not ask together. */
#define REQUEST_MIN_MS 1000
#define REQUEST_MAX_MS 5000
/* Interval of repeated requests while unanswered. */
#define REPEAT_MS (10 * 60 * 1000)

#define FILE_FORMAT "tfe-agent-key 1\n%s %s %s %s %s %lld\n"

/* Secrets, in sodium_malloc memory. */
struct secrets {
    struct token key; /* the key; its node_key is NULL if there is none */
    struct node_key node_key;
    uint8_t requested[32]; /* secret of the requested key */
    char text[ENROLLMENT_TEXT_MAX];
    char hex[5][2 * CERTIFICATE_MAX + 1];
};

struct enrollment {
    const struct token *token;
    struct secrets *secrets;
    struct event *timer;
    void (*due)(void *ctx);
    void *ctx;
    struct tfe_wall expires;
    int lock_fd; /* locked file in the state directory; -1 if the key is in memory only */
    char path[PATH_MAX];
    char public_hex[65];
};

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct enrollment *e = ctx;
    e->due(e->ctx);
}

/* --- key file --------------------------------------------------------------------------------- */

static bool from_hex(uint8_t *ret, size_t n, const char *hex)
{
    size_t got = 0;
    return sodium_hex2bin(ret, n, hex, strlen(hex), NULL, &got, NULL) == 0 && got == n;
}

/* Sets the key from hexadecimal texts. Returns false if they are malformed. */
static bool set_key(struct enrollment *e, const char *id, const char *secret, const char *own,
                    const char *certificate)
{
    struct secrets *s = e->secrets;
    size_t n = 0;
    s->key.node_key = NULL;
    s->key.role = PRINCIPAL_AGENT;
    memcpy(s->key.server_public_key, e->token->server_public_key, TOKEN_PUBLIC_KEY_BYTES);
    if (!from_hex(s->key.key_id, sizeof(s->key.key_id), id) || !token_is_node_key(s->key.key_id) ||
        !from_hex(s->key.secret, sizeof(s->key.secret), secret) ||
        !from_hex(s->node_key.secret, sizeof(s->node_key.secret), own) ||
        sodium_hex2bin(s->node_key.certificate.bytes, CERTIFICATE_MAX, certificate,
                       strlen(certificate), NULL, &n, NULL)) {
        return false;
    }
    s->node_key.certificate.n = n;
    s->key.node_key = &s->node_key;
    return true;
}

/* Parses secrets->text. Keeps the key only if our token's server issued it. Returns false if the
 * text is no key. */
static bool parse_key_text(struct enrollment *e)
{
    struct secrets *s = e->secrets;
    char server[65];
    char(*hex)[2 * CERTIFICATE_MAX + 1] = s->hex;
    char expires[20] = "";
    sodium_bin2hex(server, sizeof(server), e->token->server_public_key, TOKEN_PUBLIC_KEY_BYTES);
    bool is_key = sscanf(s->text, "tfe-agent-key 1 %64s %226s %226s %226s %226s %19s", hex[0],
                         hex[1], hex[2], hex[3], hex[4], expires) == 6 &&
                  (strcmp(hex[0], server) != 0 || set_key(e, hex[1], hex[2], hex[3], hex[4]));
    if (is_key && s->key.node_key) {
        e->expires.ms = strtoll(expires, NULL, 10);
    }
    sodium_memzero(s->text, sizeof(s->text));
    sodium_memzero(s->hex, sizeof(s->hex));
    return is_key;
}

/* Reads the key file. A damaged file, or one of another server, counts as absent: the token obtains
 * a new key. */
static void read_file(struct enrollment *e)
{
    struct tfe_reason reason;
    int rc = state_dir_read_secret(e->path, e->secrets->text, sizeof(e->secrets->text), &reason);
    if (rc == TFE_ENOENT) {
        return;
    }
    if (rc == 0 && !parse_key_text(e)) {
        reason_set(&reason, "%s does not contain a key", e->path);
        rc = TFE_EINVAL;
    }
    if (rc) {
        log_warn("agent_key_not_read", LOG_S("reason", reason.text));
    }
}

/* Reads the key from the environment, if a pool agent has passed it to this process. */
static void read_variable(struct enrollment *e)
{
    const char *text = getenv(ENROLLMENT_VARIABLE);
    if (text) {
        (void)snprintf(e->secrets->text, sizeof(e->secrets->text), "%s", text);
        if (!parse_key_text(e)) {
            log_warn("agent_key_not_read",
                     LOG_S("reason", ENROLLMENT_VARIABLE " does not contain a key"));
        }
        secret_mem_wipe_variable(ENROLLMENT_VARIABLE);
    }
}

size_t enrollment_text(struct enrollment *e, char ret[ENROLLMENT_TEXT_MAX])
{
    struct secrets *s = e->secrets;
    if (!s->key.node_key) {
        ret[0] = '\0';
        return 0;
    }
    sodium_bin2hex(s->hex[0], 65, s->key.server_public_key, TOKEN_PUBLIC_KEY_BYTES);
    token_id_text(s->key.key_id, s->hex[1]);
    sodium_bin2hex(s->hex[2], 65, s->key.secret, sizeof(s->key.secret));
    sodium_bin2hex(s->hex[3], 65, s->node_key.secret, sizeof(s->node_key.secret));
    sodium_bin2hex(s->hex[4], sizeof(s->hex[4]), s->node_key.certificate.bytes,
                   s->node_key.certificate.n);
    int n = snprintf(ret, ENROLLMENT_TEXT_MAX, FILE_FORMAT, s->hex[0], s->hex[1], s->hex[2],
                     s->hex[3], s->hex[4], (long long)e->expires.ms);
    sodium_memzero(s->hex, sizeof(s->hex));
    return (size_t)n;
}

static void write_file(struct enrollment *e)
{
    struct tfe_reason reason;
    struct secrets *s = e->secrets;
    if (e->lock_fd < 0) {
        return;
    }
    size_t n = enrollment_text(e, s->text);
    if (state_dir_write(e->path, s->text, n, &reason)) {
        log_warn("agent_key_not_stored", LOG_S("reason", reason.text));
    }
    sodium_memzero(s->text, sizeof(s->text));
}

/* Opens and locks the key file; only the first agent of a machine stores its key there. */
static void open_file(struct enrollment *e, const char *chosen)
{
    char dir[PATH_MAX];
    char lock[PATH_MAX];
    struct tfe_reason reason;
    bool is_new;
    if (state_dir_find(chosen, dir, &reason) || state_dir_make(dir, &is_new, &reason) ||
        state_dir_path(e->path, dir, STATE_DIR_AGENT_KEY, &reason) ||
        state_dir_path(lock, dir, STATE_DIR_AGENT_LOCK, &reason)) {
        log_debug("agent_key_in_memory", LOG_S("reason", reason.text));
        return;
    }
    int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        e->lock_fd = fd;
        read_file(e);
        return;
    }
    log_debug("agent_key_in_memory", LOG_S("reason", strerror(errno)));
    if (fd >= 0) {
        close(fd);
    }
}

/* --- life cycle ------------------------------------------------------------------------------- */

struct enrollment *enrollment_new(struct event_base *base, const struct token *token,
                                  const char *state_dir, void (*due)(void *ctx), void *ctx)
{
    struct enrollment *e = must_alloc(sizeof(*e));
    *e = (struct enrollment){.token = token,
                             .secrets = sodium_malloc(sizeof(*e->secrets)),
                             .timer = evtimer_new(base, on_timer, e),
                             .due = due,
                             .ctx = ctx,
                             .lock_fd = -1};
    must_succeed(e->secrets && e->timer);
    if (e->secrets) {
        *e->secrets = (struct secrets){.key = {.node_key = NULL}};
        if (state_dir) {
            open_file(e, state_dir);
        }
        read_variable(e);
    }
    return e;
}

void enrollment_free(struct enrollment *e)
{
    if (e) {
        event_free(e->timer);
        sodium_free(e->secrets); /* wipes before freeing */
        if (e->lock_fd >= 0) {
            close(e->lock_fd);
        }
        free(e);
    }
}

const struct token *enrollment_token(const struct enrollment *e)
{
    return e->secrets->key.node_key ? &e->secrets->key : e->token;
}

void enrollment_schedule(struct enrollment *e)
{
    int64_t spread = randombytes_uniform(REQUEST_MAX_MS - REQUEST_MIN_MS);
    int64_t ms = REQUEST_MIN_MS + spread;
    if (e->secrets->key.node_key) {
        /* Renew after 50 to 80 % of the key's lifetime. */
        int64_t left = LIMIT_NODE_KEY_MS / 10 * 2 +
                       LIMIT_NODE_KEY_MS / 10 * 3 / 1000 * randombytes_uniform(1000);
        int64_t until = e->expires.ms - left - clock_wall().ms;
        ms = until > ms ? until : ms;
    }
    timer_after(e->timer, ms);
}

struct tfe_msg enrollment_request(struct enrollment *e)
{
    uint8_t public_key[32];
    randombytes_buf(e->secrets->requested, sizeof(e->secrets->requested));
    crypto_scalarmult_base(public_key, e->secrets->requested);
    sodium_bin2hex(e->public_hex, sizeof(e->public_hex), public_key, sizeof(public_key));
    timer_after(e->timer, REPEAT_MS);
    return (struct tfe_msg){.type = MSG_ENROL, .u.enrol = {.public_key = e->public_hex}};
}

void enrollment_handle_answer(struct enrollment *e, const struct msg_enrolled *enrolled)
{
    struct secrets *s = e->secrets;
    if (!e->public_hex[0]) {
        return; /* no request is pending */
    }
    e->public_hex[0] = '\0';
    sodium_bin2hex(s->hex[0], 65, s->requested, sizeof(s->requested));
    bool is_good = set_key(e, enrolled->key, enrolled->secret, s->hex[0], enrolled->certificate);
    sodium_memzero(s->requested, sizeof(s->requested));
    sodium_memzero(s->hex, sizeof(s->hex));
    if (!is_good) {
        log_warn("agent_key_not_understood");
        return;
    }
    e->expires = enrolled->expires;
    write_file(e);
    enrollment_schedule(e);
    log_debug("enrolled", LOG_S("key", enrolled->key));
}

bool enrollment_is_refused(struct enrollment *e)
{
    if (!e->secrets->key.node_key) {
        return false;
    }
    e->secrets->key.node_key = NULL;
    sodium_memzero(&e->secrets->node_key, sizeof(e->secrets->node_key));
    log_info("agent_key_refused"); /* the file remains until a new key replaces it */
    return true;
}
