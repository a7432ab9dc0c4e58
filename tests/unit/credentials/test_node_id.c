/* tests/unit/credentials/test_node_id.c: the node secret that proves a node's id. */
#include <sodium.h>
#include <string.h>

#include "common/base/error.h"
#include "common/credentials/node_secrets.h"
#include "tests/unit/test_runner.h"

/* Computed by Python's hashlib: blake2b(bytes(range(32)), digest_size=16). */
#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define ID "f39a2cad58411cd49f577e5086b8031f"

TEST(node_id, is_the_hash_of_the_secret)
{
    struct tfe_id id;
    assert_int_equal(node_id_of(SECRET, &id), 0);
    assert_string_equal(id.text, ID);
    assert_true(node_id_is_proved(ID, SECRET));
}

TEST(node_id, who_knows_the_id_alone_does_not_prove_it)
{
    struct tfe_id id;
    char other[] = SECRET;
    other[63] ^= 1;
    assert_false(node_id_is_proved(ID, other));
    assert_false(node_id_is_proved(ID, ID));
    assert_false(node_id_is_proved(ID, ID ID));
    assert_false(node_id_is_proved(ID, ""));
    assert_false(node_id_is_proved(ID, NULL));
    other[63] = 'g';
    assert_int_equal(node_id_of(other, &id), TFE_EINVAL);
    assert_int_equal(node_id_of(SECRET "00", &id), TFE_EINVAL);
}

TEST(node_id, every_process_has_a_secret_of_its_own)
{
    char one[MSG_NODE_SECRET_CHARS + 1];
    char two[MSG_NODE_SECRET_CHARS + 1];
    struct tfe_id id;
    assert_true(sodium_init() >= 0);
    node_secret_make(one);
    node_secret_make(two);
    assert_string_not_equal(one, two);
    assert_int_equal(node_id_of(one, &id), 0);
    assert_false(node_id_is_proved(id.text, two));
}
