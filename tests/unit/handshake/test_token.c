/* tests/unit/handshake/test_token.c: tokens as text, and rejection of edited tokens. */
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/handshake/token.h"
#include "tests/unit/test_runner.h"

static const uint8_t root[TOKEN_ROOT_BYTES] = {1, 2, 3, 4};
static const uint8_t server_key[TOKEN_PUBLIC_KEY_BYTES] = {5, 6, 7, 8};
static const enum principal_role roles[] = {PRINCIPAL_AGENT, PRINCIPAL_OBSERVER, PRINCIPAL_ADMIN};

static void assert_same(const struct token *a, const struct token *b)
{
    assert_int_equal(a->role, b->role);
    assert_memory_equal(a->key_id, b->key_id, TOKEN_KEY_ID_BYTES);
    assert_memory_equal(a->secret, b->secret, TOKEN_SECRET_BYTES);
    assert_memory_equal(a->server_public_key, b->server_public_key, TOKEN_PUBLIC_KEY_BYTES);
}

TEST(token, survives_its_text_form_in_every_role)
{
    for (size_t i = 0; i < 3; i++) {
        struct token made, read = {0};
        char text[TOKEN_TEXT_MAX], spaced[TOKEN_TEXT_MAX + 8], prefix[32];
        token_mint(&made, &(struct token_config){.role = roles[i]}, root, server_key);
        token_format(&made, text);
        (void)snprintf(prefix, sizeof(prefix), "tfe1_%s_", principal_role_name(roles[i]));
        assert_int_equal(strncmp(text, prefix, strlen(prefix)), 0);
        assert_int_equal(strlen(text), strlen(prefix) + 112);
        assert_int_equal(token_parse(&read, text), 0);
        assert_same(&made, &read);
        (void)snprintf(spaced, sizeof(spaced), "\xef\xbb\xbf \t%s\r\n", text);
        token_done(&read);
        assert_int_equal(token_parse(&read, spaced), 0);
        assert_same(&made, &read);

        uint8_t secret[TOKEN_SECRET_BYTES];
        struct principal by;
        assert_int_equal(token_derive(made.key_id, root, secret, &by), 0);
        assert_int_equal(by.kind, PRINCIPAL_BY_TOKEN);
        assert_int_equal(by.role, roles[i]);
        assert_memory_equal(by.key_id, made.key_id, sizeof(by.key_id));
        assert_int_equal(by.expires.ms, token_expiry(made.key_id).ms);
        assert_string_equal(by.scope, PRINCIPAL_EVERY_JOB);
        assert_memory_equal(secret, made.secret, sizeof(secret));
    }
}

TEST(token, every_edited_character_is_refused)
{
    struct token made, read;
    char text[TOKEN_TEXT_MAX];
    token_mint(&made, &(struct token_config){.role = PRINCIPAL_AGENT}, root, server_key);
    token_format(&made, text);
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        char was = text[i];
        for (int c = 1; c <= UCHAR_MAX; c++) {
            text[i] = (char)c;
            assert_int_equal(token_parse(&read, text), text[i] == was ? 0 : TFE_EINVAL);
        }
        text[i] = was;
    }
    for (size_t i = 0; i < n; i++) {
        char cut[TOKEN_TEXT_MAX] = {0};
        memcpy(cut, text, i);
        assert_int_equal(token_parse(&read, cut), TFE_EINVAL);
        assert_int_equal(token_parse(&read, text + i), i == 0 ? 0 : TFE_EINVAL);
    }
    (void)strcat(text, "A");
    assert_int_equal(token_parse(&read, text), TFE_EINVAL);
}

TEST(token, another_role_s_word_is_refused)
{
    struct token made, read;
    char text[TOKEN_TEXT_MAX], edited[TOKEN_TEXT_MAX];
    token_mint(&made, &(struct token_config){.role = PRINCIPAL_AGENT}, root, server_key);
    token_format(&made, text);
    (void)snprintf(edited, sizeof(edited), "tfe1_admin_%s", text + strlen("tfe1_agent_"));
    assert_int_equal(token_parse(&read, edited), TFE_EINVAL);
    /* With a recomputed checksum the token parses, but its secret does not match the root. */
    made.role = PRINCIPAL_ADMIN;
    made.key_id[2] = PRINCIPAL_ADMIN;
    token_format(&made, edited);
    assert_int_equal(token_parse(&read, edited), 0);
    uint8_t secret[TOKEN_SECRET_BYTES];
    struct principal by;
    assert_int_equal(token_derive(read.key_id, root, secret, &by), 0);
    assert_memory_not_equal(secret, read.secret, sizeof(secret));
}

TEST(token, a_key_id_of_another_version_role_or_use_count_is_not_ours)
{
    struct token made;
    token_mint(&made, &(struct token_config){.role = PRINCIPAL_ADMIN}, root, server_key);
    for (size_t at = 0; at < 4; at++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t key_id[TOKEN_KEY_ID_BYTES], secret[TOKEN_SECRET_BYTES];
            struct principal by;
            memcpy(key_id, made.key_id, sizeof(key_id));
            key_id[at] = (uint8_t)value;
            int rc = token_derive(key_id, root, secret, &by);
            int is_legal = at == 2 ? value >= 1 && value <= 3
                           : at == 1
                               ? 1 /* the server decides whether a root of this generation exists */
                           : at == 0 ? value == 1 || value == 2
                                     : value == made.key_id[at];
            assert_int_equal(rc, is_legal ? 0 : TFE_EAUTH);
            if (rc == 0 && value != made.key_id[at]) {
                assert_memory_not_equal(secret, made.secret, sizeof(secret));
            }
        }
    }
}

TEST(token, expiry_is_rounded_up_and_never_becomes_never)
{
    static const struct {
        int64_t asked, kept;
    } rows[] = {
        {0, 0},
        {1, 1000},
        {-5, 1000},
        {1700000000000, 1700000000000},
        {1700000000001, 1700000001000},
        {INT64_MAX, (int64_t)UINT32_MAX * 1000},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct token made;
        token_mint(&made,
                   &(struct token_config){.role = PRINCIPAL_AGENT,
                                          .expires = (struct tfe_wall){rows[i].asked}},
                   root, server_key);
        assert_true(token_expiry(made.key_id).ms == rows[i].kept);
    }
}

TEST(token, bytes_are_what_protocol_md_says)
{
    struct token made;
    token_mint(&made,
               &(struct token_config){.role = PRINCIPAL_OBSERVER,
                                      .expires = (struct tfe_wall){0x01020304 * (int64_t)1000}},
               root, server_key);
    static const uint8_t head[8] = {1, 0, 2, 0, 1, 2, 3, 4};
    assert_memory_equal(made.key_id, head, sizeof(head));

    /* The checksum equals zlib's CRC-32 of the preceding 80 bytes. */
    struct token fixed = {.role = PRINCIPAL_AGENT, .key_id = {1, 0, 1, 0}};
    char text[TOKEN_TEXT_MAX];
    token_format(&fixed, text);
    assert_string_equal(text, "tfe1_agent_AQABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                              "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABvp5bW");

    uint8_t hint[TOKEN_HINT_BYTES], hash[64];
    crypto_generichash(hash, sizeof(hash), server_key, sizeof(server_key), NULL, 0);
    token_hint(server_key, hint);
    assert_memory_equal(hint, hash, sizeof(hint));
}
