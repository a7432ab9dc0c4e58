/* server/auth/keys.c: reads and writes the server's secrets and the token files of the state
 * directory. */
#include "server/auth/keys.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/cli/log.h"
#include "common/credentials/state_dir.h"
#include "common/handshake/handshake.h"
#include "common/handshake/token.h"
#include "server/server_state.h"

#define SECRET_BYTES 32
#define CHECK_BYTES 16
#define HEX(n) (2 * (n))

_Static_assert(SECRET_BYTES == crypto_scalarmult_SCALARBYTES,
               "the static secret is a curve scalar");
_Static_assert(SECRET_BYTES == TOKEN_ROOT_BYTES, "both secrets have one form in the file");
_Static_assert(TOKEN_PUBLIC_KEY_BYTES == crypto_scalarmult_BYTES,
               "the public key is a curve point");

/* Lines of the key file. The check detects damage; it does not protect against a user who can write
 * the file. */
#define KEY_LINE_VERSION "tfe-server-key 2\n"
#define KEY_LABEL_STATIC "static-secret "
#define KEY_LABEL_GENERATIONS "token-root-"
#define KEY_LABEL_GENERATION KEY_LABEL_GENERATIONS "%03u "
#define KEY_LABEL_USED "token-root-used "
#define KEY_LABEL_CHECK "check "
#define KEY_FILE_MAX 1024

/* Secrets in sodium_malloc memory: guarded, locked if limits permit, excluded from core dumps,
 * wiped. */
struct secrets {
    uint8_t static_secret[SECRET_BYTES];
    uint8_t public_key[TOKEN_PUBLIC_KEY_BYTES];
    uint8_t check[CHECK_BYTES];
    struct token_ring ring;
    char hex[HEX(SECRET_BYTES) + 1];
    char check_hex[HEX(CHECK_BYTES) + 1];
    char text[KEY_FILE_MAX];
    char again[KEY_FILE_MAX];
    char token[TOKEN_TEXT_MAX + 64];
};

static void add_secret(struct secrets *s, char out[KEY_FILE_MAX], const char *word,
                       const uint8_t secret[SECRET_BYTES])
{
    size_t n = strlen(out);
    (void)sodium_bin2hex(s->hex, sizeof(s->hex), secret, SECRET_BYTES);
    (void)snprintf(out + n, KEY_FILE_MAX - n, "%s%s\n", word, s->hex);
}

/* Formats the key file into out and returns its length. */
static size_t format_key(struct secrets *s, char out[KEY_FILE_MAX])
{
    const struct token_ring *ring = &s->ring;
    (void)snprintf(out, KEY_FILE_MAX, "%s", KEY_LINE_VERSION);
    add_secret(s, out, KEY_LABEL_STATIC, s->static_secret);
    for (unsigned i = 0; i < ring->n; i++) {
        char word[32];
        (void)snprintf(word, sizeof(word), KEY_LABEL_GENERATION, (unsigned)ring->v[i].generation);
        add_secret(s, out, word, ring->v[i].root);
    }
    size_t n = strlen(out);
    n += (size_t)snprintf(out + n, KEY_FILE_MAX - n, KEY_LABEL_USED "%03u\n",
                          (unsigned)ring->v[ring->used].generation);
    (void)crypto_generichash(s->check, CHECK_BYTES, (const uint8_t *)out, n, NULL, 0);
    (void)sodium_bin2hex(s->check_hex, sizeof(s->check_hex), s->check, CHECK_BYTES);
    (void)snprintf(out + n, KEY_FILE_MAX - n, KEY_LABEL_CHECK "%s", s->check_hex);
    return strlen(out);
}

/* Parses word, 32 bytes in hexadecimal and a newline, and advances *at. Returns false if the text
 * differs. */
static bool scan_secret(const char **at, const char *word, uint8_t ret[SECRET_BYTES])
{
    size_t n = strlen(word);
    size_t got = 0;
    const char *end = NULL;
    if (strncmp(*at, word, n) != 0 ||
        sodium_hex2bin(ret, SECRET_BYTES, *at + n, strnlen(*at + n, HEX(SECRET_BYTES)), NULL, &got,
                       &end) != 0 ||
        got != SECRET_BYTES || *end != '\n') {
        return false;
    }
    *at = end + 1;
    return true;
}

/* Parses word followed by a number. Returns false if the text differs. */
static bool scan_number(const char *at, const char *word, unsigned long *ret)
{
    const size_t n = strlen(word);
    char *end;
    if (strncmp(at, word, n) != 0) {
        return false;
    }
    *ret = strtoul(at + n, &end, 10);
    return end != at + n;
}

/* Parses the roots and the generation in use. */
static bool scan_ring(const char *at, struct token_ring *ring)
{
    unsigned long generation;
    *ring = (struct token_ring){.n = 0};
    while (ring->n < TOKEN_RING_MAX && scan_number(at, KEY_LABEL_GENERATIONS, &generation)) {
        char word[32];
        (void)snprintf(word, sizeof(word), KEY_LABEL_GENERATION, (unsigned)(generation % 1000));
        ring->v[ring->n].generation = (uint8_t)generation;
        if (!scan_secret(&at, word, ring->v[ring->n++].root)) {
            return false;
        }
    }
    bool is_there = scan_number(at, KEY_LABEL_USED, &generation);
    while (is_there && ring->used < ring->n && ring->v[ring->used].generation != generation) {
        ring->used++;
    }
    return is_there && ring->used < ring->n;
}

/* Parses the key file strictly: only text that format_key would write is accepted, so any flipped
 * bit is detected. */
static int scan_key(struct secrets *s, const char *path, struct tfe_reason *reason)
{
    const char *at = s->text;
    const size_t n = sizeof(KEY_LINE_VERSION) - 1;
    const bool is_known = strncmp(at, KEY_LINE_VERSION, n) == 0;
    if (strncmp(at, "tfe-server-key ", 15) == 0 && !is_known) {
        reason_set(
            reason,
            "cannot read %s: it was written by another version of tfe-rdzv; nothing was changed",
            path);
        return TFE_EINVAL;
    }
    at += n;
    if (is_known && scan_secret(&at, KEY_LABEL_STATIC, s->static_secret) &&
        scan_ring(at, &s->ring)) {
        (void)format_key(s, s->again);
        if (strcmp(s->again, s->text) == 0) {
            return 0;
        }
    }
    reason_set(
        reason,
        "cannot read %s: it is damaged; nothing was changed (restore it from a backup, or remove "
        "it and the token files to create new keys; all agents then need the new token)",
        path);
    return TFE_EINVAL;
}

static int write_key(struct secrets *s, const char *path, struct tfe_reason *reason)
{
    size_t n = format_key(s, s->text);
    s->text[n++] = '\n';
    return state_dir_write(path, s->text, n, reason);
}

static int make_key(struct secrets *s, const char *path, struct tfe_reason *reason)
{
    randombytes_buf(s->static_secret, SECRET_BYTES);
    s->ring = (struct token_ring){.n = 1};
    randombytes_buf(s->ring.v[0].root, SECRET_BYTES);
    int rc = write_key(s, path, reason);
    if (rc == 0) {
        log_info("server_key_made", LOG_S("file", path));
    }
    return rc;
}

const char *keys_provided_dir(void)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    char path[PATH_MAX];
    struct tfe_reason reason;
    bool is_there = folder && state_dir_path(path, folder, STATE_DIR_KEY, &reason) == 0 &&
                    access(path, F_OK) == 0;
    return is_there ? folder : NULL;
}

/* Opens the key file. running: public key of the running server, which the file must have; NULL to
 * create the file if it does not exist. */
static int open_key(struct secrets *s, const char *dir, const uint8_t *running,
                    struct tfe_reason *reason)
{
    char path[PATH_MAX];
    const char *lent = keys_provided_dir();
    int rc = state_dir_path(path, lent ? lent : dir, STATE_DIR_KEY, reason);
    if (rc != 0) {
        return rc;
    }
    rc = state_dir_read_secret(path, s->text, sizeof(s->text), reason);
    if (rc == TFE_ENOENT && !running) {
        rc = make_key(s, path, reason);
    } else if (rc == TFE_ETOOBIG) {
        s->text[0] = '\0';
        rc = scan_key(s, path, reason);
    } else if (rc == 0) {
        rc = scan_key(s, path, reason);
    }
    if (rc != 0) {
        return rc;
    }
    if (crypto_scalarmult_base(s->public_key, s->static_secret) != 0) {
        reason_set(reason, "%s contains no usable key", path);
        return TFE_EINVAL;
    }
    if (running && memcmp(running, s->public_key, TOKEN_PUBLIC_KEY_BYTES) != 0) {
        reason_set(reason, "%s differs from the key that this server uses", path);
        return TFE_EINVAL;
    }
    return 0;
}

/* Returns why a token file's text is not a valid token for this server and role, or NULL if it is
 * valid, and sets the key id. */
static const char *token_fault(const struct secrets *s, const char *text, enum principal_role role,
                               uint8_t ret_key_id[TOKEN_KEY_ID_BYTES])
{
    struct token token;
    uint8_t secret[TOKEN_SECRET_BYTES];
    struct principal by;
    const char *fault = NULL;
    if (token_parse(&token, text) != 0) {
        return "it contains no token";
    }
    struct tfe_wall expires = token_expiry(token.key_id);
    const uint8_t *root = token_root_of(&s->ring, token_generation(token.key_id));
    if (token.role != role) {
        fault = "its token is of another role";
    } else if (sodium_memcmp(token.server_public_key, s->public_key, TOKEN_PUBLIC_KEY_BYTES) != 0 ||
               !root || token_derive(token.key_id, root, secret, &by) != 0 ||
               sodium_memcmp(secret, token.secret, TOKEN_SECRET_BYTES) != 0) {
        fault = "its token belongs to another key";
    } else if (expires.ms != 0 && expires.ms <= clock_wall().ms) {
        fault = "its token has expired";
    }
    memcpy(ret_key_id, token.key_id, TOKEN_KEY_ID_BYTES);
    sodium_memzero(secret, sizeof(secret));
    token_done(&token);
    return fault;
}

/* Writes a new token of the current root. */
static int write_token(struct secrets *s, const char *path, enum principal_role role,
                       uint8_t ret_key_id[TOKEN_KEY_ID_BYTES], struct tfe_reason *reason)
{
    const struct token_root *root = &s->ring.v[s->ring.used];
    const struct token_config config = {.role = role, .generation = root->generation};
    struct token token;
    token_mint(&token, &config, root->root, s->public_key);
    token_format(&token, s->token);
    memcpy(ret_key_id, token.key_id, TOKEN_KEY_ID_BYTES);
    token_done(&token);
    size_t n = strlen(s->token);
    s->token[n++] = '\n';
    return state_dir_write(path, s->token, n, reason);
}

static const enum principal_role roles[] = {PRINCIPAL_AGENT, PRINCIPAL_OBSERVER, PRINCIPAL_ADMIN};
#define N_ROLES (sizeof(roles) / sizeof(roles[0]))

/* Key ids of the token files. */
struct token_files {
    uint8_t key_ids[N_ROLES][TOKEN_KEY_ID_BYTES];
};

/* Reads the token files and replaces invalid ones. renew: replace all by tokens of the current
 * root. */
static int open_tokens(struct secrets *s, const char *dir, bool renew, struct token_files *ret,
                       struct tfe_reason *reason)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < N_ROLES; i++) {
        char path[PATH_MAX];
        const char *fault = NULL;
        rc = state_dir_path(path, dir, state_dir_token_name(roles[i]), reason);
        if (rc != 0) {
            return rc;
        }
        rc = renew ? TFE_ENOENT : state_dir_read_secret(path, s->token, sizeof(s->token), reason);
        if (rc == 0 || rc == TFE_ETOOBIG) {
            fault = rc != 0 ? "it contains no token"
                            : token_fault(s, s->token, roles[i], ret->key_ids[i]);
            rc = fault ? TFE_ENOENT : 0;
        }
        if (fault) {
            log_warn("token_file_replaced", LOG_S("file", path), LOG_S("reason", fault));
        }
        if (rc == TFE_ENOENT) {
            rc = write_token(s, path, roles[i], ret->key_ids[i], reason);
        }
    }
    return rc;
}

/* --- keys of a running server ----------------------------------------------------------------- */

struct rotation {
    struct secrets *secrets;
    char dir[PATH_MAX];
    uint8_t public_key[TOKEN_PUBLIC_KEY_BYTES];
    enum tfe_rotation step;
    struct token_files files;
    bool is_written;     /* server.key was written */
    bool is_renewed;     /* the token files were written */
    writer_result_fn fn; /* result callback; NULL if the result is not wanted */
    void *ctx;
};

struct keys {
    char dir[PATH_MAX];
    uint8_t public_key[TOKEN_PUBLIC_KEY_BYTES];
    struct handshake_server *handshake;
    struct keyring *ring;
    struct token_files files;
    struct rotation *rotation; /* rotation in progress; NULL if none */
};

/* Adds the token files' keys to the keyring, so that lists show them. */
static int enter_files(struct keys *keys, const struct token_files *files)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < N_ROLES; i++) {
        char hex[MSG_KEY_HEX + 1];
        const uint8_t *id = files->key_ids[i];
        token_id_text(id, hex);
        rc = keyring_add(keys->ring, &(struct msg_token_row){.key = hex,
                                                             .role = roles[i],
                                                             .scope = PRINCIPAL_EVERY_JOB,
                                                             .label = "state-directory",
                                                             .generation = token_generation(id),
                                                             .used_by = ""});
    }
    return rc;
}

int keys_open(const char *state_dir, int64_t keep_ms, struct keys **ret, struct tfe_reason *reason)
{
    struct secrets *s = sodium_malloc(sizeof(*s));
    struct keys *keys = calloc(1, sizeof(*keys));
    int rc = s && keys ? 0 : TFE_ENOMEM;
    if (rc == 0) {
        rc = snprintf(keys->dir, sizeof(keys->dir), "%s", state_dir) < PATH_MAX ? 0 : TFE_ETOOBIG;
    }
    if (rc == 0) {
        rc = open_key(s, state_dir, NULL, reason);
    }
    if (rc == 0) {
        rc = open_tokens(s, state_dir, false, &keys->files, reason);
    }
    if (rc == 0) {
        rc = handshake_server_new(s->static_secret, s->ring.v[0].root, &keys->handshake);
    }
    if (rc == 0) {
        rc = keyring_new(keys->handshake, keep_ms, &keys->ring);
    }
    if (rc == 0) {
        keyring_set_roots(keys->ring, &s->ring);
        memcpy(keys->public_key, s->public_key, sizeof(keys->public_key));
        *ret = keys;
    } else {
        keys_free(keys);
    }
    if (rc == TFE_ENOMEM) {
        reason_set(reason, "no memory for the server's keys");
    }
    sodium_free(s);
    return rc;
}

static int load_row(void *ctx, const struct tfe_msg *row)
{
    int rc = keyring_add(ctx, &row->u.token_row);
    return rc == TFE_EINVAL ? 0 : rc; /* skip an invalid row */
}

int keys_load(struct keys *keys, struct store *store, struct tfe_reason *reason)
{
    const struct store_page all = {.type = MSG_TOKEN_ROW, .max = UINT32_MAX};
    int rc = store_read(store, &all, load_row, keys->ring, reason);
    if (rc == 0) {
        rc = enter_files(keys, &keys->files);
        if (rc != 0) {
            reason_set(reason, "the server's keys: %s", tfe_error_sentence(rc));
        }
    }
    return rc;
}

struct handshake_server *keys_handshake(const struct keys *keys)
{
    return keys->handshake;
}

struct keyring *keys_ring(const struct keys *keys)
{
    return keys->ring;
}

void keys_free(struct keys *keys)
{
    if (keys) {
        keyring_free(keys->ring);
        handshake_server_free(keys->handshake);
        free(keys);
    }
}

/* --- rotation --------------------------------------------------------------------------------- */

/* Performs a step on a ring in memory. Returns why it is not possible, or NULL on success. */
static const char *rotate_ring(struct token_ring *ring, enum tfe_rotation step)
{
    switch (step) {
    case ROTATE_RENEW:
    case ROTATE_INSTALL:
        if (ring->n == TOKEN_RING_MAX) {
            return "cannot add a root: the ring is full (remove the old roots first)";
        }
        ring->v[ring->n].generation = (uint8_t)(ring->v[ring->n - 1].generation + 1);
        randombytes_buf(ring->v[ring->n].root, TOKEN_ROOT_BYTES);
        ring->n++;
        ring->used = step == ROTATE_RENEW ? (uint8_t)(ring->n - 1) : ring->used;
        return NULL;
    case ROTATE_USE:
        if (ring->used == ring->n - 1) {
            return "cannot use a new root: the newest root is already in use (install another one "
                   "first)";
        }
        ring->used = (uint8_t)(ring->n - 1);
        return NULL;
    case ROTATE_REMOVE:
        if (ring->used == 0) {
            return "cannot remove roots: none is older than the root in use";
        }
        ring->n = (uint8_t)(ring->n - ring->used);
        memmove(ring->v, ring->v + ring->used, ring->n * sizeof(ring->v[0]));
        sodium_memzero(ring->v + ring->n, (TOKEN_RING_MAX - ring->n) * sizeof(ring->v[0]));
        ring->used = 0;
        return NULL;
    }
    return "unknown rotation step";
}

/* Runs on the writer's thread, because it blocks on the disk. */
static int run_rotation(void *ctx, struct tfe_reason *reason)
{
    struct rotation *r = ctx;
    struct secrets *s = r->secrets;
    char path[PATH_MAX];
    int rc = open_key(s, r->dir, r->public_key, reason);
    if (rc != 0) {
        return rc;
    }
    const char *fault = keys_provided_dir()
                            ? "cannot rotate: server.key is a credential of the service manager "
                              "(replace the credential and restart the server)"
                            : rotate_ring(&s->ring, r->step);
    if (fault) {
        reason_set(reason, "%s", fault);
        return TFE_EINVAL;
    }
    rc = state_dir_path(path, r->dir, STATE_DIR_KEY, reason);
    if (rc == 0) {
        rc = write_key(s, path, reason);
    }
    r->is_written = rc == 0;
    if (rc == 0 && r->step != ROTATE_INSTALL) {
        /* Tokens of a removed root are replaced in any case. */
        rc = open_tokens(s, r->dir, r->step != ROTATE_REMOVE, &r->files, reason);
        r->is_renewed = rc == 0;
    }
    return rc;
}

static void rotation_free(struct rotation *r)
{
    if (r) {
        sodium_free(r->secrets);
        free(r);
    }
}

/* Applies what was written, even if the result is no longer wanted. */
static void on_rotated(void *ctx, int rc, struct record_list *page, const char *reason)
{
    struct keys *keys = ctx;
    struct rotation *r = keys->rotation;
    keys->rotation = NULL;
    if (r->is_written) {
        const struct token_ring *ring = &r->secrets->ring;
        keyring_set_roots(keys->ring, ring);
        log_info("token_root_rotated", LOG_U("roots", ring->n),
                 LOG_U("used", ring->v[ring->used].generation));
    }
    if (r->is_renewed && enter_files(keys, &r->files) != 0) {
        log_warn("token_files_not_listed");
    }
    if (r->fn) {
        r->fn(r->ctx, rc, page, reason);
    }
    rotation_free(r);
}

int keys_rotate(struct keys *keys, struct writer *writer, enum tfe_rotation step,
                writer_result_fn fn, void *ctx)
{
    struct writer_request *request;
    if (keys->rotation) {
        return TFE_EEXIST;
    }
    struct rotation *r = calloc(1, sizeof(*r));
    if (!r || !(r->secrets = sodium_malloc(sizeof(*r->secrets)))) {
        rotation_free(r);
        return TFE_ENOMEM;
    }
    r->step = step;
    memcpy(r->dir, keys->dir, sizeof(r->dir));
    memcpy(r->public_key, keys->public_key, sizeof(r->public_key));
    r->fn = fn;
    r->ctx = ctx;
    keys->rotation = r;
    int rc = writer_run(writer, run_rotation, r, on_rotated, keys, &request);
    if (rc != 0) {
        keys->rotation = NULL;
        rotation_free(r);
    }
    return rc;
}

void keys_forget_rotation(struct keys *keys, const void *ctx)
{
    if (keys->rotation && keys->rotation->ctx == ctx) {
        keys->rotation->fn = NULL;
    }
}
