/* tests/unit/server_core/test_death.c: proofs of termination: which nodes look for them, and what
 * they prove. */
#include "tests/unit/server_core/server_fixture.h"

#define GUARD_PORT 777
/* Of nodes a, b … */
static const char *const hashes[] = {"da", "db", "dc"};

static int brings(struct world *w, uint32_t session, const char *hash)
{
    return say(w, session, &(struct tfe_msg){.type = MSG_DEATH, .u.death.certificate = hash});
}

static void comes(struct world *w, uint32_t session, const char *hash)
{
    w->join.proof_hash = hash;
    w->join.guard_port = hash ? GUARD_PORT : 0;
    join(w, session, name_of(session));
    w->join.proof_hash = NULL;
    w->join.guard_port = 0;
}

/* Of `members` in epoch 1, whose trainers do not listen, and spares up to n; each has a hash. */
static struct world *a_world_of(uint32_t members, uint32_t n)
{
    struct world *w = a_world(1, members);
    for (uint32_t i = 0; i < n; i++) {
        comes(w, i, hashes[i]);
        ready(w, i, i < members ? 1 : 2);
    }
    pass(w, 3000);
    assert_string_equal(job_state(w), "running");
    forget(w);
    return w;
}

TEST(death, proof_for_an_unknown_node_or_the_sender_changes_nothing)
{
    struct world *w = a_world_of(1, 2);
    assert_int_equal(brings(w, 1, "dz"), 0);
    assert_int_equal(brings(w, 1, "db"), 0);
    assert_int_equal(brings(w, 1, "d/"), TFE_EINVAL);
    assert_string_equal(w->log, "");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

/* Two processes of one id: what proves the second dead says nothing of the first. */
TEST(death, proof_for_a_replacing_process_does_not_account_for_the_replaced_one)
{
    struct world *w = a_world_of(1, 2);
    w->join.proof_hash = "dA";
    w->join.highest_epoch = w->join.running_epoch = 1;
    join(w, 5, "a"); /* of the same epochs and no other process id: but of another guard */
    w->join.proof_hash = NULL;
    w->join.highest_epoch = w->join.running_epoch = 0;
    forget(w);
    assert_int_equal(brings(w, 1, "da"), 0); /* nobody knows that hash any more */
    assert_not_saw(w, "node_dead");
    assert_int_equal(brings(w, 1, "dA"), 0);
    assert_not_saw(w, "node_dead"); /* the member may live */
    ready(w, 1, 2);
    pass(w, 5000);
    assert_not_saw(w, "START"); /* the first one's fence */
    assert_string_equal(job_state(w), "preparing");
    world_free(w);
}
