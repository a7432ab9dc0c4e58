/* tests/sim/check.h: invariants of the simulation, checked against what trainers do and what nodes
 * were granted. */
#ifndef TFE_TESTS_SIM_CHECK_H
#define TFE_TESTS_SIM_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rules: name and description. All are always checked. */
#define CHECK_RULES(X)                                                                             \
    X(EPOCH_GROWS, epoch_grows, "an epoch's number is above all earlier ones of its job")          \
    X(OVER_RESTARTS, over_restarts, "all that is said of epochs holds across server restarts too") \
    X(ONE_PROGRESS, one_progress, "at most one epoch of a job makes progress")                     \
    X(ONE_VIEW, one_view, "all members of an epoch are given the same table")                      \
    X(ONE_RANK, one_rank, "no rank of an epoch is given or lived twice")                           \
    X(LISTED, listed, "a table lists nobody who was not ready for its epoch")                      \
    X(ONE_CHIEF, one_chief, "no chief with ps begins while an earlier one may still write")        \
    X(OWN_PLACE, own_place, "each trainer listens where the table of its epoch says")              \
    X(SUCCEEDS, succeeds,                                                                          \
      "a job succeeds by the end of whose success counts, and by nobody else's")                   \
    X(GOES_ON, goes_on, "no epoch with ps ends for a lost worker while another one works")         \
    X(DONE_STAYS, done_stays,                                                                      \
      "no worker starts again in the epoch that it ended with exit status 0")                      \
    X(FENCE_HELD, fence_held, "nobody trains past its fence while its guard can run")              \
    X(FENCE_GRANTED, fence_granted, "an agent sets no fence later than it was granted")            \
    X(LEASE_KEPT, lease_kept, "no lease ends before its time on the holder's clock")               \
    X(MAX_KEPT, max_kept, "no epoch has more members than max")                                    \
    X(MIN_KEPT, min_kept, "no epoch begins with fewer members than min")                           \
    X(TRUE_WORD, true_word, "no agent says that nothing runs while a trainer of its does")         \
    X(TRUE_PROOF, true_proof, "who is proven dead has no living trainer")                          \
    X(PROOF_FITS, proof_fits, "nothing that was found before a node's last word proves it dead")   \
    X(SPOKEN_FOR, spoken_for, "an epoch is adopted where most of its nodes have spoken for it")    \
    X(NOBODY_ANSWERS, nobody_answers, "no trainer of an epoch meets what answers probes")          \
    X(NO_STALE_PEER, no_stale_peer,                                                                \
      "no trainer is where one of an earlier epoch still looks for its peers")                     \
    X(PLANNED_KEEPS, planned_keeps, "a planned switch loses no step that its scripts can save")    \
    X(SAVED_KEEPS, saved_keeps, "a switch at the checkpoint that it asked for loses no step")      \
    X(RESTART_FREE, restart_free, "a server's restart restarts no trainer")                        \
    X(NEEDLESS, needless, "no epoch is stopped where nothing has happened to it")                  \
    X(LEADS, leads, "rank 0 is on a durable node, else where it was, else on the oldest")          \
    X(SPOT_LAST, spot_last, "no spot machine is chief or ps where one that stays is a worker")     \
    X(SWITCH_SLOW, switch_slow, "a planned switch that nothing disturbs keeps its bound")          \
    X(STAYS_OVER, stays_over, "a finished job has no other epoch before its next run")             \
    X(LEDGER, ledger, "the ledger's times are those at which it happened")                         \
    X(LEASED, leased, "trainers begin only while their node has a lease")                          \
    X(LATE_FREE, late_free, "a late turn of the server's loop costs nobody its lease")             \
    X(MASS_KEPT, mass_kept, "where all members are silent the server waits for one more lease")    \
    X(WARNED, warned, "a notice that comes in time is followed in time")                           \
    X(ONE_WRITE, one_write, "no record is written twice at once")                                  \
    X(CHARGE_ONCE, charge_once, "an epoch is charged to the restart budget at most once")          \
    X(CHARGE_STANDS, charge_stands, "a charge is taken back for a loss in its own epoch only")     \
    X(CHARGE_FREE, charge_free, "no fault is charged where no trainer failed by itself")           \
    X(CHARGE_SILENT, charge_silent,                                                                \
      "… also where a peer froze or vanished unseen, if the script leaves its last words")         \
    X(ONE_WRITER, one_writer, "each record follows the epoch that is on disk")                     \
    X(QUEUES, queues, "no connection queues more bytes than the programs let it")                  \
    X(MEMORY, memory, "no core holds more memory than its bound")                                  \
    X(TIME_STANDS, time_stands, "time goes on: no core asks to be called again without end")       \
    X(HONEST, honest, "no core answers an honest event with an error")                             \
    X(SETTLES, settles, "after the last fault all live nodes share one epoch or the job is over")

enum check_rule {
#define CHECK_ENUM(NAME, name, sentence) CHECK_##NAME,
    CHECK_RULES(CHECK_ENUM)
#undef CHECK_ENUM
        CHECK__COUNT
};

const char *check_rule_name(enum check_rule rule);
const char *check_rule_sentence(enum check_rule rule);

struct check;

/* Jobs and nodes are identified by small indexes that the caller assigns. */
struct check *check_new(void);
void check_free(struct check *c);
/* Switches a rule on or off, for tests of the checks themselves. */
void check_force(struct check *c, enum check_rule rule, bool on);

bool check_failed(const struct check *c);
/* Returns the rule that was violated first, or NULL if none was. */
const char *check_failed_rule(const struct check *c);
const char *check_failed_text(const struct check *c);

/* Reports a violation of the rule. Ignored while the rule is off or after an earlier violation. */
__attribute__((format(printf, 3, 4))) void check_fail(struct check *c, enum check_rule rule,
                                                      const char *format, ...);

/* --- occurrences; each function may detect a violation --- */

void check_job(struct check *c, uint32_t job, uint32_t min, uint32_t max, uint32_t nproc);
/* The scripts of the job end without output, so a peer's failure cannot be told from their own. */
/* An operator sets the job's number of nodes; running epochs may have more. */
void check_resized(struct check *c, uint32_t job, uint32_t min, uint32_t max);
void check_mute(struct check *c, uint32_t job);
/* A server process starts. While OVER_RESTARTS is off, all jobs are forgotten with it, and epochs
 * of different servers are not compared. */
void check_server_begins(struct check *c);
uint32_t check_era(const struct check *c, uint32_t job);
/* The job's record is lost: what later servers report of the job is a new history, unless it is
 * rebuilt. */
void check_forgotten(struct check *c, uint32_t job);
/* The job's record is lost, and it continues from this epoch, which an older record names. */
void check_rolled_back(struct check *c, uint32_t job, uint64_t epoch);
/* The job continues with the epoch that its members report. */
void check_rebuilt(struct check *c, uint32_t job, uint64_t epoch);
/* The server does not know the job: what earlier servers reported of it is forgotten. */
void check_unheard(struct check *c, uint32_t job);
/* The server receives a JOIN of a node that has seen epoch `seen` and runs another one (0:
 * none). */
void check_heard(struct check *c, uint32_t job, uint64_t seen, uint64_t running, uint64_t digest);
/* The server chooses this epoch's number: numbers reported to it until now must be below.
 * check_epoch checks the running epochs reported until then. */
void check_chosen(struct check *c, uint32_t job, uint64_t epoch);

/* A node's part in an epoch: ranks of its trainers, their total number, digest of the table. */
struct check_part {
    uint32_t rank, n, world;
    uint64_t digest;
};

/* The server starts an epoch and sends one of its STARTs. */
void check_epoch(struct check *c, uint32_t job, uint64_t epoch, uint64_t members);
void check_start(struct check *c, uint32_t job, uint64_t epoch, uint32_t node,
                 const struct check_part *part);
/* The epoch is charged to the restart budget. The charge may be taken back until verdict_at
 * (virtual time) or the job's end, and is checked then. */
void check_charged(struct check *c, uint32_t job, uint64_t epoch, int64_t verdict_at);
/* A loss in this epoch explains its fault: the charge is taken back. */
void check_charge_back(struct check *c, uint32_t job, uint64_t epoch);
void check_time(struct check *c, uint32_t job, int64_t now);
void check_over(struct check *c, uint32_t job);
void check_new_run(struct check *c, uint32_t job);

/* A trainer process starts with this view of its epoch; ends; all trainers of an epoch have made a
 * step. */
void check_trainer_begins(struct check *c, uint32_t era, uint32_t job, uint64_t epoch,
                          uint32_t node, uint32_t rank, uint32_t world, uint64_t digest);
void check_trainer_ends(struct check *c, uint32_t era, uint32_t job, uint64_t epoch, uint32_t rank);
void check_step(struct check *c, uint32_t era, uint32_t job, uint64_t epoch);
/* True causes of an epoch's end: a trainer of it has failed by itself; a member was unreachable for
 * the server or its peers. */
void check_own_fault(struct check *c, uint32_t era, uint32_t job, uint64_t epoch);
void check_silence(struct check *c, uint32_t era, uint32_t job, uint64_t epoch);
/* The training of the epoch is done: a trainer whose report of its end is delayed then looks as if
 * it hung. */
void check_finished(struct check *c, uint32_t era, uint32_t job, uint64_t epoch);
/* An agent process starts; it has received a lease and fence of these lengths, counted from a time
 * on its own clock. */
void check_node_begins(struct check *c, uint32_t node);
void check_granted(struct check *c, uint32_t node, int64_t from, int64_t ttl_ms, int64_t fence_ms);
/* The node's fence ends at this time on its clock, by its START. */
void check_fence_granted(struct check *c, uint32_t node, int64_t end);
int64_t check_fence_end(const struct check *c, uint32_t node);
/* The node's clock stands still for a while from now on: other nodes cannot rely on what it was
 * granted. */
void check_clock_stood(struct check *c, uint32_t node, int64_t clock);
/* Returns true if the node's clock has stood still since its lease was granted: the lease ends
 * earlier for the server than for the node. */
bool check_lease_stood(const struct check *c, uint32_t node);
/* The server that granted the lease is gone and the present one does not know the lease: the
 * database is lost, or the node was in no epoch, so that it had no slot to lose. The node can be in
 * no epoch before it has received a new grant, because its READY answers a PREPARE that follows the
 * WELCOME. */
void check_lease_forgotten(struct check *c, uint32_t node);
void check_lease_over(struct check *c, uint32_t node, int64_t clock);
void check_fence_set(struct check *c, uint32_t node, int64_t deadline);
void check_word(struct check *c, uint32_t node, const char *message, uint32_t trainers_alive);

/* A trainer starts on the node at this time of its clock: checks that the lease is valid. */
void check_leased(struct check *c, uint32_t node, int64_t clock);
/* The server considers this node's trainers of the epoch dead. */
void check_dead(struct check *c, uint32_t job, uint64_t epoch, uint32_t node);
/* A trainer of the epoch starts and may connect to a port on which another node answers probes. */
void check_answers(struct check *c, uint32_t job, uint64_t epoch, uint32_t node,
                   uint32_t answering);

void check_memory(struct check *c, const char *owner, size_t bytes, size_t limit);
void check_honest(struct check *c, const char *who, const char *what, int rc);

#endif
