/* tests/unit/credentials/test_termination_proof.c: proofs of termination, their hashes, and the
 * line that transmits one. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/base/error.h"
#include "common/credentials/node_secrets.h"
#include "tests/unit/test_runner.h"

#define BYTES_0_TO_31 "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
/* Computed by Python's hashlib: blake2b(bytes(range(32)), digest_size=32, person=b"tfe
 * certificate"). */
#define HASH "121aee992c14b0bd012b26d19f990da67dafb183d5d0a64d17b8c75cb9d741f4"

TEST(death, is_the_hash_that_others_work_out)
{
    struct tfe_id hash;
    assert_true(sodium_init() >= 0);
    assert_int_equal(proof_hash_of(BYTES_0_TO_31, &hash), 0);
    assert_string_equal(hash.text, HASH);
}

TEST(death, is_of_32_bytes_and_nothing_else)
{
    struct tfe_id hash;
    assert_int_equal(proof_hash_of("", &hash), TFE_EINVAL);
    assert_int_equal(proof_hash_of("00", &hash), TFE_EINVAL);
    assert_int_equal(proof_hash_of(BYTES_0_TO_31 "00", &hash), TFE_EINVAL);
    assert_int_equal(proof_hash_of("z" BYTES_0_TO_31, &hash), TFE_EINVAL);
}

TEST(death, is_another_one_each_time)
{
    char one[PROOF_CHARS + 1];
    char two[PROOF_CHARS + 1];
    assert_true(sodium_init() >= 0);
    proof_make(one);
    proof_make(two);
    assert_string_not_equal(one, two);
    assert_int_equal(strlen(one), PROOF_CHARS);
}

TEST(death, is_read_from_a_whole_line_only)
{
    static const char line[] = PROOF_LINE_PREFIX BYTES_0_TO_31 "\njob j\n";
    const size_t n = PROOF_LINE_MAX - 1;
    char got[PROOF_CHARS + 1];
    char other[sizeof(line)];
    assert_true(proof_read_line(line, sizeof(line) - 1, got));
    assert_string_equal(got, BYTES_0_TO_31);
    assert_true(proof_read_line(line, n, got));
    for (size_t i = 0; i < n; i++) {
        assert_false(proof_read_line(line, i, got));
        memcpy(other, line, sizeof(line));
        other[i] = 'X';
        assert_false(proof_read_line(other, n, got));
    }
}
