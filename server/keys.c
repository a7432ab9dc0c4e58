/* server/keys.c: the server's secrets and the first tokens, from and into the state directory. */
#include "server/keys.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/net/clock.h"
#include "common/net/log.h"
#include "common/net/state_dir.h"
#include "common/wire/token.h"
#include "server/state.h"

#define SECRET_BYTES 32
#define CHECK_BYTES 16
#define HEX(n) (2 * (n))

_Static_assert(SECRET_BYTES == crypto_scalarmult_SCALARBYTES,
               "the static secret is a curve scalar");
_Static_assert(SECRET_BYTES == TOKEN_ROOT_BYTES, "both secrets have one form in the file");
_Static_assert(TOKEN_PUBLIC_KEY_BYTES == crypto_scalarmult_BYTES,
               "the public key is a curve point");

/* The file is these four lines. The check tells a damaged file from a good one; it is no protection
 * against whoever may write the file. */
#define KEY_LINE_VERSION "tfe-server-key 1\n"
#define KEY_WORD_STATIC "static-secret "
#define KEY_WORD_ROOT "token-root "
#define KEY_WORD_CHECK "check "
#define KEY_FILE_MAX 512

/* Lives in sodium_malloc memory: guarded, locked if the limits allow it, not in dumps, wiped. */
struct secrets {
    uint8_t static_secret[SECRET_BYTES];
    uint8_t root[SECRET_BYTES];
    uint8_t public_key[TOKEN_PUBLIC_KEY_BYTES];
    uint8_t check[CHECK_BYTES];
    char static_hex[HEX(SECRET_BYTES) + 1];
    char root_hex[HEX(SECRET_BYTES) + 1];
    char check_hex[HEX(CHECK_BYTES) + 1];
    char text[KEY_FILE_MAX];
    char again[KEY_FILE_MAX];
};

/* Writes the file's text for the two secrets into out. */
static size_t format_key(struct secrets *s, char out[KEY_FILE_MAX])
{
    (void)sodium_bin2hex(s->static_hex, sizeof(s->static_hex), s->static_secret, SECRET_BYTES);
    (void)sodium_bin2hex(s->root_hex, sizeof(s->root_hex), s->root, SECRET_BYTES);
    (void)snprintf(out, KEY_FILE_MAX, KEY_LINE_VERSION KEY_WORD_STATIC "%s\n" KEY_WORD_ROOT "%s\n",
                   s->static_hex, s->root_hex);
    size_t n = strlen(out);
    (void)crypto_generichash(s->check, CHECK_BYTES, (const uint8_t *)out, n, NULL, 0);
    (void)sodium_bin2hex(s->check_hex, sizeof(s->check_hex), s->check, CHECK_BYTES);
    (void)snprintf(out + n, KEY_FILE_MAX - n, KEY_WORD_CHECK "%s", s->check_hex);
    return strlen(out);
}

/* Moves *at past word and reads 32 bytes of hexadecimal and a newline. */
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

/* Strict: only what format_key writes is taken, so any flipped bit shows. */
static int scan_key(struct secrets *s, const char *path, struct tfe_why *why)
{
    const char *at = s->text;
    size_t n = strlen(KEY_LINE_VERSION);
    if (strncmp(at, "tfe-server-key ", 15) == 0 && strncmp(at, KEY_LINE_VERSION, n) != 0) {
        why_set(why, "%s was written by another version of tfe-rdzv; nothing was changed", path);
        return TFE_EINVAL;
    }
    if (strncmp(at, KEY_LINE_VERSION, n) == 0) {
        at += n;
        if (scan_secret(&at, KEY_WORD_STATIC, s->static_secret) &&
            scan_secret(&at, KEY_WORD_ROOT, s->root)) {
            (void)format_key(s, s->again);
            if (strcmp(s->again, s->text) == 0) {
                return 0;
            }
        }
    }
    why_set(why,
            "%s is damaged; nothing was changed: restore it from a backup, or remove it together "
            "with the token files to start anew (all agents then need the new token)",
            path);
    return TFE_EINVAL;
}

static int make_key(struct secrets *s, const char *path, struct tfe_why *why)
{
    randombytes_buf(s->static_secret, SECRET_BYTES);
    randombytes_buf(s->root, SECRET_BYTES);
    size_t n = format_key(s, s->text);
    s->text[n++] = '\n';
    int err = state_dir_write(path, s->text, n, why);
    if (err == 0) {
        log_info("server_key_made", LOG_S("file", path));
    }
    return err;
}

static int open_key(struct secrets *s, const char *dir, struct tfe_why *why)
{
    char path[PATH_MAX];
    int err = state_path(path, dir, STATE_DIR_KEY, why);
    if (err != 0) {
        return err;
    }
    err = state_dir_read(path, s->text, sizeof(s->text), why);
    if (err == TFE_ENOENT) {
        err = make_key(s, path, why);
    } else if (err == TFE_ETOOBIG) {
        s->text[0] = '\0';
        err = scan_key(s, path, why);
    } else if (err == 0) {
        struct stat st;
        if (stat(path, &st) == 0 && (st.st_mode & 077) != 0) {
            log_warn("server_key_open_to_others", LOG_S("file", path),
                     LOG_S("hint", "chmod 600 it, and make a new one if others may have read it"));
        }
        err = scan_key(s, path, why);
    }
    if (err != 0) {
        return err;
    }
    if (crypto_scalarmult_base(s->public_key, s->static_secret) != 0) {
        why_set(why, "%s holds no usable key", path);
        return TFE_EINVAL;
    }
    return 0;
}

/* Whether a token file's text opens this server for this role. NULL: it does. */
static const char *token_fault(const struct secrets *s, const char *text, enum token_role role)
{
    struct token token;
    uint8_t secret[TOKEN_SECRET_BYTES];
    enum token_role carried;
    const char *fault = NULL;
    if (token_parse(&token, text) != 0) {
        return "it holds no token";
    }
    struct tfe_wall expires = token_expiry(token.key_id);
    if (token.role != role) {
        fault = "its token is of another role";
    } else if (sodium_memcmp(token.server_public_key, s->public_key, TOKEN_PUBLIC_KEY_BYTES) != 0 ||
               token_derive(token.key_id, s->root, secret, &carried) != 0 ||
               sodium_memcmp(secret, token.secret, TOKEN_SECRET_BYTES) != 0) {
        fault = "its token belongs to another key";
    } else if (expires.ms != 0 && expires.ms <= clock_wall().ms) {
        fault = "its token has expired";
    }
    sodium_memzero(secret, sizeof(secret));
    token_done(&token);
    return fault;
}

static int open_token(const struct secrets *s, const char *dir, enum token_role role,
                      struct tfe_why *why)
{
    char path[PATH_MAX];
    char text[TOKEN_TEXT_MAX + 64];
    int err = state_path(path, dir, state_dir_token_name(role), why);
    if (err != 0) {
        return err;
    }
    err = state_dir_read(path, text, sizeof(text), why);
    if (err == 0 || err == TFE_ETOOBIG) {
        const char *fault = err != 0 ? "it holds no token" : token_fault(s, text, role);
        sodium_memzero(text, sizeof(text));
        if (fault == NULL) {
            return 0;
        }
        log_warn("token_file_replaced", LOG_S("file", path), LOG_S("why", fault));
    } else if (err != TFE_ENOENT) {
        return err;
    }
    struct token token;
    token_mint(&token, role, (struct tfe_wall){.ms = 0}, s->root, s->public_key);
    token_format(&token, text);
    token_done(&token);
    size_t n = strlen(text);
    text[n++] = '\n';
    err = state_dir_write(path, text, n, why);
    sodium_memzero(text, sizeof(text));
    return err;
}

int keys_open(const char *state_dir, struct hello_server **ret, struct tfe_why *why)
{
    static const enum token_role roles[] = {TOKEN_AGENT, TOKEN_OBSERVER, TOKEN_ADMIN};
    struct secrets *s = sodium_malloc(sizeof(*s));
    if (s == NULL) {
        why_set(why, "no memory for the server's keys");
        return TFE_ENOMEM;
    }
    int err = open_key(s, state_dir, why);
    for (unsigned i = 0; err == 0 && i < sizeof(roles) / sizeof(roles[0]); i++) {
        err = open_token(s, state_dir, roles[i], why);
    }
    if (err == 0) {
        err = hello_server_new(s->static_secret, s->root, ret);
        if (err != 0) {
            why_set(why, "no memory for the server's keys");
        }
    }
    sodium_free(s);
    return err;
}
