/* tests/unit/records/test_audit_chain.c: the hash chain of the audit. */
#include <string.h>

#include "common/records/audit_chain.h"
#include "tests/unit/test_runner.h"

static const struct msg_audit_row row = {.number = 7,
                                         .at = {1234},
                                         .key = "aa",
                                         .label = "anna",
                                         .from = "[::1]:9",
                                         .what = "EVICT",
                                         .about = "n",
                                         .result = "done",
                                         .hash = "not part of it"};

TEST(audit_chain, hash_matches_protocol_md)
{
    char hash[AUDIT_HASH_CHARS + 1];
    /* Computed by Python's hashlib:
     * blake2b(b"before\n7\n1234\naa\nanna\n[::1]:9\nEVICT\nn\ndone\n", 32). */
    audit_hash(&row, "before", hash);
    assert_string_equal(hash, "c1ef7971602fe623cfdb347b28038f5d133a91976be8b28662bc6bd61a00c689");
}

TEST(audit_chain, shifted_field_boundary_changes_the_hash)
{
    char one[AUDIT_HASH_CHARS + 1];
    char two[AUDIT_HASH_CHARS + 1];
    struct msg_audit_row other = row;
    other.what = "EVICTn";
    other.about = "";
    audit_hash(&row, "", one);
    audit_hash(&other, "", two);
    assert_string_not_equal(one, two);
}
