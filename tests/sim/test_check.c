/* tests/sim/test_check.c: shows that each invariant that depends on a history can fail: histories
 * that violate it, and similar ones that do not. The planted bugs show it for the others. */
#include "tests/sim/check.h"
#include "tests/unit/test_runner.h"

/* Sets up one job of 2 to 3 nodes with one trainer each. */
static int set_up(void **state)
{
    struct check *c = check_new();
    check_server_begins(c);
    check_job(c, 0, 2, 3, 1);
    *state = c;
    return 0;
}

static int tear_down(void **state)
{
    check_free(*state);
    return 0;
}

static void assert_broken(const struct check *c, const char *rule)
{
    assert_true(check_failed(c));
    assert_string_equal(check_failed_rule(c), rule);
}

static void begin_epoch(struct check *c, uint64_t epoch)
{
    check_epoch(c, 0, epoch, 2);
    for (uint32_t node = 0; node < 2; node++) {
        check_start(c, 0, epoch, node, &(struct check_part){node, 1, 2, 100 + epoch});
        check_trainer_begins(c, 0, 0, epoch, node, node, 2, 100 + epoch);
    }
}

#define FIXTURE set_up, tear_down

TEST_IN(check, an_honest_history_breaks_nothing)
{
    struct check *c = *state;
    begin_epoch(c, 1);
    check_step(c, 0, 0, 1);
    check_own_fault(c, 0, 0, 1);
    check_charged(c, 0, 1, 100);
    check_trainer_ends(c, 0, 0, 1, 0);
    check_trainer_ends(c, 0, 0, 1, 1);
    begin_epoch(c, 2);
    check_time(c, 0, 200);
    check_step(c, 0, 0, 2);
    assert_false(check_failed(c));
}

TEST_IN(epoch_grows, a_number_comes_again)
{
    begin_epoch(*state, 5);
    check_epoch(*state, 0, 5, 2);
    assert_broken(*state, "epoch_grows");
}

TEST_IN(over_restarts, a_number_comes_again_after_a_restart)
{
    begin_epoch(*state, 5);
    check_server_begins(*state);
    check_epoch(*state, 0, 5, 2);
    assert_broken(*state, "epoch_grows");
}

TEST_IN(over_restarts, switched_off_a_restart_begins_afresh)
{
    check_force(*state, CHECK_OVER_RESTARTS, false);
    begin_epoch(*state, 5);
    check_server_begins(*state);
    check_epoch(*state, 0, 1, 2);
    assert_false(check_failed(*state));
}

TEST_IN(over_restarts, a_rebuilt_job_goes_on_with_its_numbers)
{
    begin_epoch(*state, 5);
    check_forgotten(*state, 0);
    check_rebuilt(*state, 0, 5);
    assert_false(check_failed(*state));
    check_epoch(*state, 0, 5, 2);
    assert_broken(*state, "epoch_grows");
}

TEST_IN(over_restarts, what_was_true_of_a_rebuilt_epoch_before_stays_true)
{
    /* If something was seen of the epoch between the loss and the rebuilding, only that counts. */
    begin_epoch(*state, 5);
    check_forgotten(*state, 0);
    check_own_fault(*state, 0, 0, 5); /* its cluster still belongs to the era in which it started */
    check_silence(*state, 1, 0, 5);
    check_forgotten(*state, 0); /* forgotten again before it was rebuilt */
    check_silence(*state, 2, 0, 5);
    check_rebuilt(*state, 0, 5);
    check_charged(*state, 0, 5, 100);
    check_time(*state, 0, 100);
    assert_false(check_failed(*state));
    check_trainer_begins(*state, 2, 0, 5, 1, 0, 2, 105);
    assert_broken(*state, "one_rank"); /* it is that epoch, with its living trainers */
}

TEST_IN(over_restarts, numbers_rise_above_what_a_node_has_seen)
{
    begin_epoch(*state, 5);
    check_forgotten(*state, 0);
    check_heard(*state, 0, 5, 0, 0);
    check_chosen(*state, 0, 6);
    check_heard(*state, 0, 7, 0, 0); /* too late for that epoch */
    check_chosen(*state, 0, 6);
    assert_false(check_failed(*state));
    check_chosen(*state, 0, 7);
    assert_broken(*state, "epoch_grows");
}

TEST_IN(one_progress, of_an_epoch_whose_record_is_lost_the_server_was_told)
{
    begin_epoch(*state, 5);
    check_step(*state, 0, 0, 5);
    check_forgotten(*state, 0);
    check_chosen(*state, 0, 1);
    check_heard(*state, 0, 5, 5, 105); /* while its record is being written */
    check_epoch(*state, 0, 1, 2);
    check_step(*state, 0, 0, 5);
    assert_false(check_failed(*state));
    check_step(*state, 1, 0, 1);
    check_step(*state, 0, 0, 5);
    assert_broken(*state, "one_progress");
}

TEST_IN(one_progress, nobody_told_the_server_before_it_began)
{
    begin_epoch(*state, 5);
    check_forgotten(*state, 0);
    check_chosen(*state, 0, 1);
    check_epoch(*state, 0, 1, 2);
    check_heard(*state, 0, 5, 5, 105);
    check_step(*state, 1, 0, 1);
    check_step(*state, 0, 0, 5);
    assert_false(check_failed(*state));
    check_step(*state, 0, 0, 4); /* but no lower number is checked than before */
    assert_broken(*state, "one_progress");
}

TEST_IN(one_progress, the_old_epoch_steps_after_the_new_one)
{
    begin_epoch(*state, 1);
    check_step(*state, 0, 0, 1);
    check_step(*state, 0, 0, 2);
    assert_false(check_failed(*state));
    check_step(*state, 0, 0, 1);
    assert_broken(*state, "one_progress");
}

TEST_IN(one_view, two_members_are_told_two_tables)
{
    check_epoch(*state, 0, 1, 2);
    check_start(*state, 0, 1, 0, &(struct check_part){0, 1, 2, 7});
    check_start(*state, 0, 1, 1, &(struct check_part){1, 1, 2, 8});
    assert_broken(*state, "one_view");
}

TEST_IN(one_view, a_trainer_begins_with_another_table)
{
    begin_epoch(*state, 1);
    check_trainer_begins(*state, 0, 0, 1, 2, 1, 3, 9);
    assert_broken(*state, "one_view");
}

TEST_IN(one_rank, a_rank_is_given_to_two_nodes)
{
    check_epoch(*state, 0, 1, 2);
    check_start(*state, 0, 1, 0, &(struct check_part){0, 1, 2, 7});
    check_start(*state, 0, 1, 0, &(struct check_part){0, 1, 2, 7}); /* the same START again */
    assert_false(check_failed(*state));
    check_start(*state, 0, 1, 1, &(struct check_part){0, 1, 2, 7});
    assert_broken(*state, "one_rank");
}

TEST_IN(one_rank, two_trainers_live_in_one_rank)
{
    begin_epoch(*state, 1);
    check_trainer_begins(*state, 0, 0, 1, 2, 1, 2, 101);
    assert_broken(*state, "one_rank");
}

TEST_IN(one_rank, a_rank_may_be_taken_again_once_it_is_free)
{
    begin_epoch(*state, 1);
    check_trainer_ends(*state, 0, 0, 1, 1);
    check_trainer_begins(*state, 0, 0, 1, 2, 1, 2, 101);
    assert_false(check_failed(*state));
}

TEST_IN(fence_granted, the_guard_is_given_more_than_was_granted)
{
    check_granted(*state, 0, 1000, 10000, 30000);
    check_fence_set(*state, 0, 31000);
    assert_false(check_failed(*state));
    check_fence_set(*state, 0, 31001);
    assert_broken(*state, "fence_granted");
}

TEST_IN(lease_kept, a_lease_ends_one_millisecond_early)
{
    check_granted(*state, 0, 1000, 10000, 30000);
    check_lease_over(*state, 0, 11000);
    assert_false(check_failed(*state));
    check_lease_over(*state, 0, 10999);
    assert_broken(*state, "lease_kept");
}

TEST_IN(lease_kept, a_clock_that_stood_still_is_excused_until_it_is_granted_anew)
{
    check_granted(*state, 0, 1000, 10000, 30000);
    check_clock_stood(*state, 0, 2000);
    check_granted(*state, 0, 1500, 10000, 30000); /* asked before the clock stood still */
    assert_true(check_lease_stood(*state, 0));
    check_lease_over(*state, 0, 5000);
    assert_false(check_failed(*state));
    check_granted(*state, 0, 3000, 10000, 30000);
    assert_false(check_lease_stood(*state, 0));
    check_lease_over(*state, 0, 5000);
    assert_broken(*state, "lease_kept");
}

TEST_IN(lease_kept, of_a_server_that_lost_its_disk_it_may_end)
{
    check_granted(*state, 0, 0, 100, 100);
    check_lease_forgotten(*state, 0);
    check_lease_over(*state, 0, 50);
    assert_false(check_failed(*state));
}

TEST_IN(max_kept, an_epoch_of_four)
{
    check_epoch(*state, 0, 1, 4);
    assert_broken(*state, "max_kept");
}

TEST_IN(max_kept, a_table_of_four)
{
    check_epoch(*state, 0, 1, 3);
    check_start(*state, 0, 1, 0, &(struct check_part){0, 1, 4, 7});
    assert_broken(*state, "max_kept");
}

TEST_IN(min_kept, an_epoch_of_one)
{
    check_epoch(*state, 0, 1, 1);
    assert_broken(*state, "min_kept");
}

TEST_IN(true_word, ready_is_said_beside_a_living_trainer)
{
    check_word(*state, 0, "READY", 0);
    assert_false(check_failed(*state));
    check_word(*state, 0, "READY", 1);
    assert_broken(*state, "true_word");
}

TEST_IN(charge_once, an_epoch_is_charged_twice)
{
    begin_epoch(*state, 1);
    check_own_fault(*state, 0, 0, 1);
    check_charged(*state, 0, 1, 100);
    check_charged(*state, 0, 1, 100);
    assert_broken(*state, "charge_once");
}

TEST_IN(charge_stands, a_charge_is_taken_back_in_another_epoch)
{
    begin_epoch(*state, 1);
    check_own_fault(*state, 0, 0, 1);
    check_charged(*state, 0, 1, 100);
    check_charge_back(*state, 0, 2);
    assert_broken(*state, "charge_stands");
}

TEST_IN(charge_free, a_peers_end_is_charged)
{
    begin_epoch(*state, 1);
    check_charged(*state, 0, 1, 100);
    check_time(*state, 0, 99);
    assert_false(check_failed(*state));
    check_time(*state, 0, 100);
    assert_broken(*state, "charge_free");
}

TEST_IN(charge_free, a_job_ends_on_a_charge_that_is_not_true)
{
    begin_epoch(*state, 1);
    check_charged(*state, 0, 1, 100);
    check_over(*state, 0);
    assert_broken(*state, "charge_free");
}

TEST_IN(charge_free, taken_back_in_time_it_is_no_charge)
{
    begin_epoch(*state, 1);
    check_charged(*state, 0, 1, 100);
    check_charge_back(*state, 0, 1);
    check_time(*state, 0, 200);
    assert_false(check_failed(*state));
}

TEST_IN(charge_silent, a_peers_silent_end_is_charged)
{
    begin_epoch(*state, 1);
    check_silence(*state, 0, 0, 1);
    check_charged(*state, 0, 1, 100);
    check_over(*state, 0);
    assert_broken(*state, "charge_silent");
}

TEST_IN(charge_silent, without_last_words_it_may_be)
{
    check_mute(*state, 0);
    begin_epoch(*state, 1);
    check_silence(*state, 0, 0, 1);
    check_charged(*state, 0, 1, 100);
    check_over(*state, 0);
    assert_false(check_failed(*state));
}

TEST_IN(true_proof, a_trainer_lives_where_all_are_proven_dead)
{
    begin_epoch(*state, 1);
    check_trainer_ends(*state, 0, 0, 1, 0);
    check_dead(*state, 0, 1, 0);
    assert_false(check_failed(*state));
    check_dead(*state, 0, 1, 1);
    assert_broken(*state, "true_proof");
}

TEST_IN(nobody_answers, a_member_answers_probes_on_its_trainers_port)
{
    check_clock_stood(*state, 0, 100);
    check_answers(*state, 0, 1, 0, 1);
    assert_false(check_failed(*state));
    check_granted(*state, 0, 200, 10, 10);
    check_answers(*state, 0, 1, 0, 1);
    assert_broken(*state, "nobody_answers");
}

TEST_IN(memory, one_byte_more_than_the_bound)
{
    check_memory(*state, "server", 100, 100);
    assert_false(check_failed(*state));
    check_memory(*state, "server", 101, 100);
    assert_broken(*state, "memory");
}

TEST_IN(honest, a_core_refuses_an_honest_event)
{
    check_honest(*state, "server", "RENEW", -2);
    assert_broken(*state, "honest");
}

TEST_IN(leased, a_trainer_begins_after_the_lease)
{
    check_node_begins(*state, 1);
    check_leased(*state, 1, 100); /* no lease is known */
    check_granted(*state, 1, 0, 100, 1000);
    check_leased(*state, 1, 100);
    assert_false(check_failed(*state));
    check_leased(*state, 1, 101);
    assert_broken(*state, "leased");
}

TEST_IN(stays_over, only_the_next_run_may_begin)
{
    begin_epoch(*state, 1);
    check_over(*state, 0);
    check_new_run(*state, 0);
    begin_epoch(*state, 2);
    assert_false(check_failed(*state));
    check_over(*state, 0);
    check_epoch(*state, 0, 3, 2);
    assert_broken(*state, "stays_over");
}

TEST_IN(check, the_first_violation_stays)
{
    check_word(*state, 0, "READY", 1);
    check_epoch(*state, 0, 1, 9);
    assert_broken(*state, "true_word");
}
