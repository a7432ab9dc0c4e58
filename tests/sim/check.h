/* tests/sim/check.h: invariants of the simulation, checked against what trainers do and what nodes
 * were granted. */
#ifndef TFE_TESTS_SIM_CHECK_H
#define TFE_TESTS_SIM_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The rules: name and description. All are always checked. */
#define CHECK_RULES(X)                                                                             \
    X(EPOCH_NUMBER, epoch_number, "an epoch's number is higher than all earlier ones of its job")  \
    X(ACROSS_RESTARTS, across_restarts, "the rules about epochs also hold across server restarts") \
    X(ONE_PROGRESS, one_progress, "at most one epoch of a job makes progress")                     \
    X(ONE_TABLE, one_table, "all members of an epoch receive the same table")                      \
    X(ONE_RANK, one_rank, "no rank of an epoch is assigned to two nodes or runs twice")            \
    X(MEMBERS_READY, members_ready, "a table lists only nodes that were ready for its epoch")      \
    X(ONE_CHIEF, one_chief,                                                                        \
      "no chief of a job with ps starts while an earlier chief may still write")                   \
    X(OWN_ADDRESS, own_address, "each trainer listens at the address in the table of its epoch")   \
    X(JOB_SUCCESS, job_success,                                                                    \
      "a job succeeds only when the trainers whose success counts have succeeded")                 \
    X(WORKER_LOSS, worker_loss,                                                                    \
      "an epoch with ps does not end for a lost worker while another worker runs")                 \
    X(SUCCESS_FINAL, success_final,                                                                \
      "a worker that ended with exit status 0 does not start again in that epoch")                 \
    X(FENCE_ENFORCED, fence_enforced, "no trainer runs past its fence while its guard can run")    \
    X(FENCE_GRANTED, fence_granted, "no agent sets a fence later than the server granted")         \
    X(LEASE_HONORED, lease_honored, "no lease ends before its time on the node's clock")           \
    X(MAX_NODES, max_nodes, "no epoch has more members than max")                                  \
    X(MIN_NODES, min_nodes, "no epoch starts with fewer members than min")                         \
    X(IDLE_REPORTS, idle_reports,                                                                  \
      "no agent reports that nothing runs while one of its trainers runs")                         \
    X(DEATH_PROOF, death_proof, "a node that is proven dead has no running trainer")               \
    X(PROOF_CURRENT, proof_current,                                                                \
      "evidence from before a node's last contact does not prove it dead")                         \
    X(MAJORITY, majority, "an epoch is adopted only if most of its nodes have reported it")        \
    X(PROBE_PORTS, probe_ports,                                                                    \
      "no agent answers probes on a port to which a starting trainer may connect")                 \
    X(NO_STALE_PEER, no_stale_peer,                                                                \
      "no trainer uses a port at which a trainer of an earlier epoch looks for peers")             \
    X(PLANNED_STOP, planned_stop, "a planned switch loses no step that the scripts can save")      \
    X(SAVED_STEP, saved_step, "a switch at a requested checkpoint loses no step")                  \
    X(SERVER_RESTART, server_restart, "a server restart restarts no trainer")                      \
    X(NEEDLESS_STOP, needless_stop, "no epoch is stopped without a cause")                         \
    X(RANK0_CHOICE, rank0_choice,                                                                  \
      "rank 0 is on a durable node, else on its last node, else on the oldest node")               \
    X(SPOT_LAST, spot_last, "no spot machine is chief or ps while a non-spot machine is a worker") \
    X(SWITCH_TIME, switch_time, "an undisturbed planned switch keeps its time limit")              \
    X(JOB_FINISHED, job_finished, "a finished job has no further epoch before its next run")       \
    X(LEDGER, ledger, "the ledger's times are the true times of the events")                       \
    X(LEASED_START, leased_start, "trainers start only while their node has a lease")              \
    X(LATE_SERVER, late_server, "a late iteration of the server's loop expires no lease")          \
    X(MASS_LOSS, mass_loss, "if all members are silent, the server waits for one more lease")      \
    X(NOTICE_OBEYED, notice_obeyed,                                                                \
      "a node with an early enough notice stops training before its machine ends")                 \
    X(SINGLE_WRITE, single_write, "no record is written again while a write of it is in progress") \
    X(CHARGE_ONCE, charge_once, "an epoch is charged to the restart budget at most once")          \
    X(CHARGE_REFUND, charge_refund, "a charge is cancelled only for a loss in its own epoch")      \
    X(CHARGE_FAULT, charge_fault,                                                                  \
      "an epoch is charged only if one of its trainers failed by itself")                          \
    X(CHARGE_SILENT, charge_silent,                                                                \
      "CHARGE_FAULT also holds if a peer froze or vanished and the script prints last words")      \
    X(RECORD_ORDER, record_order, "each record follows the epoch that is on disk")                 \
    X(QUEUE_LIMIT, queue_limit, "no connection queues more bytes than its limit")                  \
    X(MEMORY_LIMIT, memory_limit, "no core holds more memory than its limit")                      \
    X(ENDLESS_LOOP, endless_loop, "no core requests timers without end at one point in time")      \
    X(HONEST_EVENT, honest_event, "no core rejects an honest event")                               \
    X(CONVERGES, converges,                                                                        \
      "after the last fault all live nodes share one epoch or the job is over")

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
/* An operator sets the job's number of nodes; running epochs may have more. */
void check_resized(struct check *c, uint32_t job, uint32_t min, uint32_t max);
/* The scripts of the job end without output, so the server cannot distinguish their own failure
 * from a peer's. */
void check_mute(struct check *c, uint32_t job);
/* A server process starts. While ACROSS_RESTARTS is off, all jobs are forgotten with it, and epochs
 * of different servers are not compared. */
void check_server_begins(struct check *c);
uint32_t check_era(const struct check *c, uint32_t job);
/* The job's record is lost: later epochs of the job belong to a new history, unless a server
 * rebuilds the job. */
void check_forgotten(struct check *c, uint32_t job);
/* The job's record is lost, and it continues from this epoch, which an older record names. */
void check_rolled_back(struct check *c, uint32_t job, uint64_t epoch);
/* The job continues with the epoch that its members report. */
void check_rebuilt(struct check *c, uint32_t job, uint64_t epoch);
/* The server does not know the job: forgets what nodes have reported to earlier servers. */
void check_reports_dropped(struct check *c, uint32_t job);
/* The server receives a JOIN of a node that has seen epoch `seen` and runs another one (0:
 * none). */
void check_join_received(struct check *c, uint32_t job, uint64_t seen, uint64_t running,
                         uint64_t digest);
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
/* The epoch is charged to the restart budget. The charge may be cancelled until verdict_at
 * (virtual time) or the job's end, and is checked then. */
void check_charged(struct check *c, uint32_t job, uint64_t epoch, int64_t verdict_at);
/* A loss in this epoch explains its fault: the charge is cancelled. */
void check_charge_cancelled(struct check *c, uint32_t job, uint64_t epoch);
void check_time(struct check *c, uint32_t job, int64_t now);
void check_over(struct check *c, uint32_t job);
void check_new_run(struct check *c, uint32_t job);

/* A trainer process starts with this view of its epoch; a trainer process ends; all trainers of an
 * epoch have made a step. */
void check_trainer_begins(struct check *c, uint32_t era, uint32_t job, uint64_t epoch,
                          uint32_t node, uint32_t rank, uint32_t world, uint64_t digest);
void check_trainer_ends(struct check *c, uint32_t era, uint32_t job, uint64_t epoch, uint32_t rank);
void check_step(struct check *c, uint32_t era, uint32_t job, uint64_t epoch);
/* True causes of an epoch's end: a trainer of the epoch has failed by itself; a member was
 * unreachable for the server or its peers. */
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
void check_idle_report(struct check *c, uint32_t node, const char *message,
                       uint32_t trainers_alive);

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
