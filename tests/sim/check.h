/* tests/sim/check.h: the invariants, judged from what trainers do and what nodes were promised. */
#ifndef TFE_TESTS_SIM_CHECK_H
#define TFE_TESTS_SIM_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rules: name and sentence. All are judged, always. */
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

/* Jobs and nodes are small indexes of the caller's. */
struct check *check_new(void);
void check_free(struct check *c);
/* Switches a rule off, for tests of the checks themselves. */
void check_force(struct check *c, enum check_rule rule, bool on);

bool check_failed(const struct check *c);
/* NULL before. The first violation stays. */
const char *check_failed_rule(const struct check *c);
const char *check_failed_text(const struct check *c);

/* --- what happens; each may find a violation --- */

void check_job(struct check *c, uint32_t job, uint32_t min, uint32_t max, uint32_t nproc);
/* Its scripts end without a word: where nobody has a sign of a peer's end, nothing tells it from
 * their own. */
/* An operator says how many nodes it has; epochs that are under way may have more. */
void check_resized(struct check *c, uint32_t job, uint32_t min, uint32_t max);
void check_mute(struct check *c, uint32_t job);
/* A server process begins. While OVER_RESTARTS is off all jobs are forgotten with it: eras of a job
 * are not compared. */
void check_server_begins(struct check *c);
uint32_t check_era(const struct check *c, uint32_t job);
/* Its record is lost: what the next servers say of it is a new history, unless it is rebuilt. */
void check_forgotten(struct check *c, uint32_t job);
/* … and goes on from this epoch, which an older record names. */
void check_rolled_back(struct check *c, uint32_t job, uint64_t epoch);
/* A job goes on with the epoch that its members say they run. */
void check_rebuilt(struct check *c, uint32_t job, uint64_t epoch);
/* The server has no such job: what others said of it is forgotten. */
void check_unheard(struct check *c, uint32_t job);
/* A JOIN is heard: of a node that has seen this epoch, and runs that one (0: none). */
void check_heard(struct check *c, uint32_t job, uint64_t seen, uint64_t running, uint64_t digest);
/* A table of the epoch lists this node. */
void check_listed(struct check *c, uint64_t epoch, uint32_t node, bool was_ready);
/* A chief with ps begins, and one of this earlier epoch lives. */
void check_one_chief(struct check *c, uint64_t epoch, uint64_t earlier);
/* A trainer of the epoch begins on one of the ports that its node holds: the one listed for it? */
void check_own_place(struct check *c, uint64_t epoch, uint32_t node, uint32_t rank, bool is_listed);
/* An epoch with ps is ended for a worker that is lost, and another one works. */
void check_goes_on(struct check *c, uint64_t epoch);
/* A served worker of this node starts again in the epoch after exit status 0. */
void check_done_again(struct check *c, uint64_t epoch, uint32_t node);
void check_succeeds(struct check *c, const char *job, bool chief_done);
/* The server decides that this epoch is the next: the numbers that it has heard by then hold for
 * it; what it has heard by check_epoch of what runs does. */
void check_chosen(struct check *c, uint32_t job, uint64_t epoch);
/* A record is synced in place of that of another epoch (0: there was none). */
void check_record(struct check *c, const char *job, uint64_t predecessor, uint64_t on_disk);

/* A node's part in an epoch: its trainers' ranks, of so many, in the table with this digest. */
struct check_part {
    uint32_t rank, n, world;
    uint64_t digest;
};

/* The server begins an epoch, and sends a START of it. */
void check_epoch(struct check *c, uint32_t job, uint64_t epoch, uint64_t members);
void check_start(struct check *c, uint32_t job, uint64_t epoch, uint32_t node,
                 const struct check_part *part);
/* The epoch is charged to the restart budget; that may be taken back until verdict_at (virtual
 * time) or the job's end, and is judged then. */
void check_charged(struct check *c, uint32_t job, uint64_t epoch, int64_t verdict_at);
/* A loss in this epoch explains its fault. */
void check_charge_back(struct check *c, uint32_t job, uint64_t epoch);
void check_time(struct check *c, uint32_t job, int64_t now);
void check_over(struct check *c, uint32_t job);
void check_new_run(struct check *c, uint32_t job);

/* A trainer process begins with this view of its epoch, ends; all of an epoch have made a step. */
void check_trainer_begins(struct check *c, uint32_t era, uint32_t job, uint64_t epoch,
                          uint32_t node, uint32_t rank, uint32_t world, uint64_t digest);
void check_trainer_ends(struct check *c, uint32_t era, uint32_t job, uint64_t epoch, uint32_t rank);
void check_step(struct check *c, uint32_t era, uint32_t job, uint64_t epoch);
/* The truth about an epoch: a trainer of it has failed by itself; a member was out of sight of the
 * server or of its peers. */
void check_own_fault(struct check *c, uint32_t era, uint32_t job, uint64_t epoch);
void check_silence(struct check *c, uint32_t era, uint32_t job, uint64_t epoch);
/* Its training is done: whose word of its end is held up then, looks as if it hung. */
void check_finished(struct check *c, uint32_t era, uint32_t job, uint64_t epoch);
/* An agent process begins; the holder has read that it has its lease and fence for so long, counted
 * from a point on its own clock. */
void check_node_begins(struct check *c, uint32_t node);
void check_granted(struct check *c, uint32_t node, int64_t from, int64_t ttl_ms, int64_t fence_ms);
/* … that its fence ends then on its clock, with its START. */
void check_fence_granted(struct check *c, uint32_t node, int64_t end);
int64_t check_fence_end(const struct check *c, uint32_t node);
/* The clock stands still from here on for a while: what was promised by it cannot be kept by
 * others. */
void check_clock_stood(struct check *c, uint32_t node, int64_t clock);
/* Whether it has since it was granted its lease: that ends sooner for the server than the node
 * renews it. */
bool check_lease_stood(const struct check *c, uint32_t node);
/* The server that granted it is gone, and the one there now knows of no lease of this node: the
 * disk is lost, or the node was in no epoch, so that no place of its could be given away. Nor can
 * it be in one before it has read what it is granted now: READY is said to a PREPARE behind that
 * WELCOME. */
void check_lease_forgotten(struct check *c, uint32_t node);
void check_lease_over(struct check *c, uint32_t node, int64_t clock);
void check_fence_set(struct check *c, uint32_t node, int64_t deadline);
/* The fence has passed for so long that its guard must have killed everything. */
void check_fence_past(struct check *c, uint32_t node, uint32_t trainers_alive);
void check_word(struct check *c, uint32_t node, const char *message, uint32_t trainers_alive);

/* An epoch came to a planned end that nothing disturbed, and its cluster broke all the same. */
void check_planned_lost(struct check *c, uint32_t job, uint64_t epoch, const char *who);
/* The server stopped an epoch since its scripts have answered with a checkpoint, and nothing
 * disturbed that: the last step of its cluster, and the one that the next goes on from. */
void check_kept(struct check *c, uint32_t job, uint64_t epoch, uint64_t last, uint64_t next);
/* The epoch is stopped, or breaks, though it trains on machines that are well; carried: since a
 * server has come back. */
void check_needless(struct check *c, uint64_t epoch, bool carried, const char *what);
/* Another node than its leader should lead it. */
void check_leads(struct check *c, uint64_t epoch, uint32_t leader, uint32_t node,
                 const char *reason);
/* A spot machine has the place of a chief or ps, and this other node one of a worker. */
void check_spot(struct check *c, uint64_t epoch, uint32_t spot, uint32_t node);
void check_slow(struct check *c, uint64_t epoch, int64_t took, int64_t bound);
void check_ledger(struct check *c, uint64_t epoch, uint32_t what, int64_t said, int64_t is);
/* The lease of a node was taken for over, though it had to be spared. */
void check_spared(struct check *c, enum check_rule rule, uint32_t node, const char *reason);
/* Its trainers of the epoch still train when its machine goes. */
void check_warned(struct check *c, uint64_t epoch, uint32_t node);
void check_written_twice(struct check *c, const char *job, uint64_t sequence);
/* A trainer begins. */
void check_leased(struct check *c, uint32_t node, int64_t clock);
/* The server takes this node's trainers of the epoch for dead. */
void check_dead(struct check *c, uint32_t job, uint64_t epoch, uint32_t node);
/* … by what others have found who were asked then, and it was let in then (events, by their order).
 */
void check_proof(struct check *c, uint32_t node, uint64_t asked, uint64_t heard);
/* A server without a record goes on with the epoch: so many of its nodes have said that they are,
 * or were, in it. */
void check_adopted(struct check *c, uint64_t epoch, uint32_t spoke, uint32_t nodes);
/* The guard of this node gives out its death certificate. */
void check_certificate(struct check *c, uint32_t node, uint32_t trainers_alive);
/* A trainer of the epoch begins on one node, and may connect to a port on which another answers
 * probes. */
void check_answers(struct check *c, uint32_t job, uint64_t epoch, uint32_t node,
                   uint32_t answering);

/* A trainer of the epoch begins, and one of the earlier epoch that has not found its peers yet
 * looks for one of them at the same address. */
void check_stale_peer(struct check *c, uint32_t job, uint64_t epoch, uint64_t earlier,
                      const char *who);

void check_queue(struct check *c, uint32_t node, size_t bytes, size_t max);
void check_memory(struct check *c, const char *owner, size_t bytes, size_t limit);
void check_time_stands(struct check *c, const char *who);
void check_honest(struct check *c, const char *who, const char *what, int rc);
/* why: what is not as it should be, long after the last fault. */
void check_not_settled(struct check *c, const char *reason);

#endif
