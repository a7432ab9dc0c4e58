/* tests/sim/bugs.h: deliberate bugs of the cores, each one line behind TFE_BUG(name), compiled in
 * only for the simulator; scripts/explore.sh --bugs proves that the explorer finds each of them. */
#ifndef TFE_TESTS_SIM_BUGS_H
#define TFE_TESTS_SIM_BUGS_H

/* name, what goes wrong */
#define SIM_BUGS(X)                                                                                \
    X(skip_fence_wait, "a switch waits for no fence though nothing is known of the old members")   \
    X(restored_no_fence, "a restarted server takes all fences for passed")                         \
    X(account_suspects, "a closed connection counts as proof that the trainers are dead")          \
    X(lease_short, "the server ends a lease by its own clock, as if that were the slowest")        \
    X(renew_forgets, "a RENEW is answered and does not prolong the lease")                         \
    X(start_before_durable, "an epoch begins before its record is on disk")                        \
    X(max_off_by_one, "one member more than max")                                                  \
    X(min_off_by_one, "an epoch begins with one member fewer than min")                            \
    X(epoch_repeats, "the next epoch has the number of the last one")                              \
    X(seat_twice, "all members of an epoch get rank 0")                                            \
    X(charge_all, "every failed trainer of an epoch is charged")                                   \
    X(charge_stopped, "trainers that the agent ended itself are charged")                          \
    X(loss_ignored, "a lost member starts no switch")                                              \
    X(spare_forgotten, "who is no member is not asked for the next epoch")                         \
    X(finish_untold, "the nodes of a finished job are not told")                                   \
    X(tick_forgotten, "no timer is set while a switch waits for a fence")                          \
    X(leak_nodes, "nodes that are gone are not freed")                                             \
    X(fence_from_answer, "an agent's fence counts from the answer instead of from the question")   \
    X(fence_unset, "an agent hands its guard no fence")                                            \
    X(ready_early, "an agent says READY while its trainers are being killed")                      \
    X(exited_early, "an agent says EXITED before its trainers are reaped")                         \
    X(stop_ignored, "an agent does not follow STOP")                                               \
    X(join_says_idle, "an agent's JOIN says that nothing runs")                                    \
    X(stop_hard, "an agent gives no grace at a planned stop")                                      \
    X(save_unawaited, "a switch does not wait for the checkpoint that it has asked for")           \
    X(accepted_is_proof, "a suspect whose ports accept counts as proven dead")                     \
    X(answers_on, "an agent goes on answering probes on its trainers' ports")                      \
    X(reconnect_never, "an agent whose connection broke stays away")

enum sim_bug {
    SIM_BUG_none,
#define SIM_BUG_ENUM(name, sentence) SIM_BUG_##name,
    SIM_BUGS(SIM_BUG_ENUM)
#undef SIM_BUG_ENUM
        SIM_BUG__COUNT
};

/* The one variable that the cores know: pure code cannot be handed a bug otherwise. Set before a
 * run. */
extern enum sim_bug sim_bug_on;
#define TFE_BUG(name) (sim_bug_on == SIM_BUG_##name)

/* 0; -1: no bug of this name. */
int bugs_choose(const char *name);
void bugs_print(void);

#endif
