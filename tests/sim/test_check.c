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

TEST_IN(check, valid_history_breaks_no_rule)
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

TEST_IN(epoch_number, repeated_number_is_reported)
{
    begin_epoch(*state, 5);
    check_epoch(*state, 0, 5, 2);
    assert_broken(*state, "epoch_number");
}

TEST_IN(across_restarts, repeated_number_after_restart_is_reported)
{
    begin_epoch(*state, 5);
    check_server_begins(*state);
    check_epoch(*state, 0, 5, 2);
    assert_broken(*state, "epoch_number");
}

TEST_IN(across_restarts, restart_resets_numbers_if_switched_off)
{
    check_force(*state, CHECK_ACROSS_RESTARTS, false);
    begin_epoch(*state, 5);
    check_server_begins(*state);
    check_epoch(*state, 0, 1, 2);
    assert_false(check_failed(*state));
}

TEST_IN(across_restarts, rebuilt_job_continues_its_numbers)
{
    begin_epoch(*state, 5);
    check_forgotten(*state, 0);
    check_rebuilt(*state, 0, 5);
    assert_false(check_failed(*state));
    check_epoch(*state, 0, 5, 2);
    assert_broken(*state, "epoch_number");
}

TEST_IN(across_restarts, rebuilt_epoch_keeps_its_earlier_facts)
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

TEST_IN(across_restarts, number_below_one_seen_by_a_node_is_reported)
{
    begin_epoch(*state, 5);
    check_forgotten(*state, 0);
    check_join_received(*state, 0, 5, 0, 0);
    check_chosen(*state, 0, 6);
    check_join_received(*state, 0, 7, 0, 0); /* too late for that epoch */
    check_chosen(*state, 0, 6);
    assert_false(check_failed(*state));
    check_chosen(*state, 0, 7);
    assert_broken(*state, "epoch_number");
}

TEST_IN(one_progress, step_of_epoch_reported_before_the_new_one_is_reported)
{
    begin_epoch(*state, 5);
    check_step(*state, 0, 0, 5);
    check_forgotten(*state, 0);
    check_chosen(*state, 0, 1);
    check_join_received(*state, 0, 5, 5, 105); /* while its record is being written */
    check_epoch(*state, 0, 1, 2);
    check_step(*state, 0, 0, 5);
    assert_false(check_failed(*state));
    check_step(*state, 1, 0, 1);
    check_step(*state, 0, 0, 5);
    assert_broken(*state, "one_progress");
}

TEST_IN(one_progress, step_of_epoch_reported_too_late_is_allowed)
{
    begin_epoch(*state, 5);
    check_forgotten(*state, 0);
    check_chosen(*state, 0, 1);
    check_epoch(*state, 0, 1, 2);
    check_join_received(*state, 0, 5, 5, 105);
    check_step(*state, 1, 0, 1);
    check_step(*state, 0, 0, 5);
    assert_false(check_failed(*state));
    check_step(*state, 0, 0, 4); /* but no lower number is checked than before */
    assert_broken(*state, "one_progress");
}

TEST_IN(one_progress, step_of_old_epoch_after_new_one_is_reported)
{
    begin_epoch(*state, 1);
    check_step(*state, 0, 0, 1);
    check_step(*state, 0, 0, 2);
    assert_false(check_failed(*state));
    check_step(*state, 0, 0, 1);
    assert_broken(*state, "one_progress");
}

TEST_IN(one_table, two_tables_of_one_epoch_are_reported)
{
    check_epoch(*state, 0, 1, 2);
    check_start(*state, 0, 1, 0, &(struct check_part){0, 1, 2, 7});
    check_start(*state, 0, 1, 1, &(struct check_part){1, 1, 2, 8});
    assert_broken(*state, "one_table");
}

TEST_IN(one_table, trainer_with_another_table_is_reported)
{
    begin_epoch(*state, 1);
    check_trainer_begins(*state, 0, 0, 1, 2, 1, 3, 9);
    assert_broken(*state, "one_table");
}

TEST_IN(one_rank, rank_assigned_to_two_nodes_is_reported)
{
    check_epoch(*state, 0, 1, 2);
    check_start(*state, 0, 1, 0, &(struct check_part){0, 1, 2, 7});
    check_start(*state, 0, 1, 0, &(struct check_part){0, 1, 2, 7}); /* the same START again */
    assert_false(check_failed(*state));
    check_start(*state, 0, 1, 1, &(struct check_part){0, 1, 2, 7});
    assert_broken(*state, "one_rank");
}

TEST_IN(one_rank, two_trainers_of_one_rank_are_reported)
{
    begin_epoch(*state, 1);
    check_trainer_begins(*state, 0, 0, 1, 2, 1, 2, 101);
    assert_broken(*state, "one_rank");
}

TEST_IN(one_rank, free_rank_may_start_again)
{
    begin_epoch(*state, 1);
    check_trainer_ends(*state, 0, 0, 1, 1);
    check_trainer_begins(*state, 0, 0, 1, 2, 1, 2, 101);
    assert_false(check_failed(*state));
}

TEST_IN(fence_granted, fence_later_than_granted_is_reported)
{
    check_granted(*state, 0, 1000, 10000, 30000);
    check_fence_set(*state, 0, 31000);
    assert_false(check_failed(*state));
    check_fence_set(*state, 0, 31001);
    assert_broken(*state, "fence_granted");
}

TEST_IN(lease_honored, lease_end_one_millisecond_early_is_reported)
{
    check_granted(*state, 0, 1000, 10000, 30000);
    check_lease_over(*state, 0, 11000);
    assert_false(check_failed(*state));
    check_lease_over(*state, 0, 10999);
    assert_broken(*state, "lease_honored");
}

TEST_IN(lease_honored, stopped_clock_is_excused_until_next_grant)
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
    assert_broken(*state, "lease_honored");
}

TEST_IN(lease_honored, lease_may_end_early_after_lost_database)
{
    check_granted(*state, 0, 0, 100, 100);
    check_lease_forgotten(*state, 0);
    check_lease_over(*state, 0, 50);
    assert_false(check_failed(*state));
}

TEST_IN(max_nodes, epoch_above_max_is_reported)
{
    check_epoch(*state, 0, 1, 4);
    assert_broken(*state, "max_nodes");
}

TEST_IN(max_nodes, table_above_max_is_reported)
{
    check_epoch(*state, 0, 1, 3);
    check_start(*state, 0, 1, 0, &(struct check_part){0, 1, 4, 7});
    assert_broken(*state, "max_nodes");
}

TEST_IN(min_nodes, epoch_below_min_is_reported)
{
    check_epoch(*state, 0, 1, 1);
    assert_broken(*state, "min_nodes");
}

TEST_IN(idle_reports, ready_with_running_trainer_is_reported)
{
    check_idle_report(*state, 0, "READY", 0);
    assert_false(check_failed(*state));
    check_idle_report(*state, 0, "READY", 1);
    assert_broken(*state, "idle_reports");
}

TEST_IN(charge_once, second_charge_of_epoch_is_reported)
{
    begin_epoch(*state, 1);
    check_own_fault(*state, 0, 0, 1);
    check_charged(*state, 0, 1, 100);
    check_charged(*state, 0, 1, 100);
    assert_broken(*state, "charge_once");
}

TEST_IN(charge_refund, refund_in_other_epoch_is_reported)
{
    begin_epoch(*state, 1);
    check_own_fault(*state, 0, 0, 1);
    check_charged(*state, 0, 1, 100);
    check_charge_cancelled(*state, 0, 2);
    assert_broken(*state, "charge_refund");
}

TEST_IN(charge_fault, charge_for_a_peers_end_is_reported)
{
    begin_epoch(*state, 1);
    check_charged(*state, 0, 1, 100);
    check_time(*state, 0, 99);
    assert_false(check_failed(*state));
    check_time(*state, 0, 100);
    assert_broken(*state, "charge_fault");
}

TEST_IN(charge_fault, false_charge_at_job_end_is_reported)
{
    begin_epoch(*state, 1);
    check_charged(*state, 0, 1, 100);
    check_over(*state, 0);
    assert_broken(*state, "charge_fault");
}

TEST_IN(charge_fault, charge_cancelled_in_time_is_allowed)
{
    begin_epoch(*state, 1);
    check_charged(*state, 0, 1, 100);
    check_charge_cancelled(*state, 0, 1);
    check_time(*state, 0, 200);
    assert_false(check_failed(*state));
}

TEST_IN(charge_silent, charge_for_a_silent_peer_is_reported)
{
    begin_epoch(*state, 1);
    check_silence(*state, 0, 0, 1);
    check_charged(*state, 0, 1, 100);
    check_over(*state, 0);
    assert_broken(*state, "charge_silent");
}

TEST_IN(charge_silent, charge_for_a_silent_peer_of_a_mute_script_is_allowed)
{
    check_mute(*state, 0);
    begin_epoch(*state, 1);
    check_silence(*state, 0, 0, 1);
    check_charged(*state, 0, 1, 100);
    check_over(*state, 0);
    assert_false(check_failed(*state));
}

TEST_IN(death_proof, running_trainer_of_dead_node_is_reported)
{
    begin_epoch(*state, 1);
    check_trainer_ends(*state, 0, 0, 1, 0);
    check_dead(*state, 0, 1, 0);
    assert_false(check_failed(*state));
    check_dead(*state, 0, 1, 1);
    assert_broken(*state, "death_proof");
}

TEST_IN(probe_ports, probe_answer_on_trainer_port_is_reported)
{
    check_clock_stood(*state, 0, 100);
    check_answers(*state, 0, 1, 0, 1);
    assert_false(check_failed(*state));
    check_granted(*state, 0, 200, 10, 10);
    check_answers(*state, 0, 1, 0, 1);
    assert_broken(*state, "probe_ports");
}

TEST_IN(memory_limit, one_byte_above_the_limit_is_reported)
{
    check_memory(*state, "server", 100, 100);
    assert_false(check_failed(*state));
    check_memory(*state, "server", 101, 100);
    assert_broken(*state, "memory_limit");
}

TEST_IN(honest_event, rejected_honest_event_is_reported)
{
    check_honest(*state, "server", "RENEW", -2);
    assert_broken(*state, "honest_event");
}

TEST_IN(leased_start, trainer_start_after_lease_end_is_reported)
{
    check_node_begins(*state, 1);
    check_leased(*state, 1, 100); /* no lease is known */
    check_granted(*state, 1, 0, 100, 1000);
    check_leased(*state, 1, 100);
    assert_false(check_failed(*state));
    check_leased(*state, 1, 101);
    assert_broken(*state, "leased_start");
}

TEST_IN(job_finished, epoch_after_job_end_without_new_run_is_reported)
{
    begin_epoch(*state, 1);
    check_over(*state, 0);
    check_new_run(*state, 0);
    begin_epoch(*state, 2);
    assert_false(check_failed(*state));
    check_over(*state, 0);
    check_epoch(*state, 0, 3, 2);
    assert_broken(*state, "job_finished");
}

TEST_IN(check, later_violation_does_not_replace_first)
{
    check_idle_report(*state, 0, "READY", 1);
    check_epoch(*state, 0, 1, 9);
    assert_broken(*state, "idle_reports");
}
