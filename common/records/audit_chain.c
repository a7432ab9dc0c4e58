/* common/records/audit_chain.c: hash chain of the audit log. */
#include "common/records/audit_chain.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

_Static_assert(2 * crypto_generichash_BYTES == AUDIT_HASH_CHARS, "hexadecimal");

void audit_hash(const struct msg_audit_row *row, const char *before, char ret[AUDIT_HASH_CHARS + 1])
{
    char number[24];
    char at[24];
    uint8_t hash[crypto_generichash_BYTES];
    crypto_generichash_state state;
    (void)snprintf(number, sizeof(number), "%" PRIu64, row->number);
    (void)snprintf(at, sizeof(at), "%" PRId64, row->at.ms);
    const char *const texts[] = {before,    number,    at,         row->key,   row->label,
                                 row->from, row->what, row->about, row->result};
    (void)crypto_generichash_init(&state, NULL, 0, sizeof(hash));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        (void)crypto_generichash_update(&state, (const uint8_t *)texts[i], strlen(texts[i]));
        (void)crypto_generichash_update(&state, (const uint8_t *)"\n", 1);
    }
    (void)crypto_generichash_final(&state, hash, sizeof(hash));
    (void)sodium_bin2hex(ret, AUDIT_HASH_CHARS + 1, hash, sizeof(hash));
}
