/* server/core/verdict_rules.c: two tables: from the evidence of an ending to the verdict, and from
 * the verdict to its consequences (design 4.11). */
#include <string.h>

#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/layout.h"
#include "server/core/lease.h"
#include "server/core/node.h"
#include "server/core/plan.h"
#include "server/core/stderr_tail.h"
#include "server/core/verdict.h"

/* Evidence of an ending. */
enum evidence {
    SAW_SUCCESS = 1u << 0, /* exit status 0 */
    SAW_STOPPED = 1u << 1, /* ended by the agent itself */
    SAW_AWAY = 1u << 2,    /* reported in a JOIN: the node had lost the server */
    SAW_MISSING = 1u << 3, /* a peer is missing, or was lost with it */
    SAW_SILENT = 1u << 4,  /* a peer has missed its last renewal */
    SAW_PREEMPTION =
        /* exit code 42 or 143, or SIGTERM: TensorFlow's PreemptionCheckpointHandler, and clouds */
    1u << 5,
    SAW_MEMORY = 1u << 6,      /* killed by the kernel for its use of memory */
    SAW_NO_START = 1u << 7,    /* did not start up in time */
    SAW_ABORT = 1u << 8,       /* aborted before its cluster was complete */
    SAW_EXCEPTION = 1u << 9,   /* its last exception comes from the script */
    SAW_COLLECTIVE = 1u << 10, /* its last lines are those of a collective that a peer has broken */
    SAW_LEAVING = 1u << 11, /* its machine will be terminated, which may end its trainers earlier */
    SAW_FAREWELL = 1u << 12,    /* a peer is leaving, which breaks the collectives */
    SAW_NO_PROGRESS = 1u << 13, /* ended for showing no sign of life */
    SAW_ALWAYS = 1u << 14,      /* its restart policy is Always */
    SAW_USELESS = 1u << 15      /* exit status 65: the script itself rules a restart out */
};

/* Evidence that decides without a look at the peers: its rules come before those of SAW_MISSING and
 * SAW_SILENT. */
#define SAW_ENOUGH (SAW_SUCCESS | SAW_STOPPED | SAW_LEAVING | SAW_USELESS)

/* The first rule applies whose evidence is all present. */
static const struct {
    unsigned saw;
    enum verdict verdict;
} rules[] = {
    {SAW_SUCCESS | SAW_ALWAYS, VERDICT_AGAIN},
    {SAW_SUCCESS, VERDICT_FINISHED},
    {SAW_USELESS, VERDICT_UNRECOVERABLE},
    {SAW_LEAVING, VERDICT_PREEMPTED},
    {SAW_STOPPED | SAW_AWAY, VERDICT_COORDINATOR},
    {SAW_STOPPED, VERDICT_STOPPED},
    {SAW_MISSING, VERDICT_LOST_NODE},
    {SAW_FAREWELL, VERDICT_PREEMPTED},
    {SAW_PREEMPTION, VERDICT_PREEMPTED},
    {SAW_MEMORY, VERDICT_OUT_OF_MEMORY},
    {SAW_NO_START, VERDICT_START_TIMEOUT},
    /* A trainer that waits in a collective for a machine that stands still is silent as well. */
    {SAW_NO_PROGRESS | SAW_SILENT, VERDICT_PEER_CAUSED},
    {SAW_NO_PROGRESS, VERDICT_PROGRESS_TIMEOUT},
    /* After an exception of the script, TensorFlow also complains about its peers. */
    {SAW_EXCEPTION, VERDICT_OWN_FAULT},
    {SAW_COLLECTIVE, VERDICT_PEER_CAUSED},
    {SAW_ABORT, VERDICT_START_TIMEOUT},
    {SAW_SILENT, VERDICT_PEER_CAUSED},
    {0, VERDICT_OWN_FAULT},
};

const struct verdict_effect verdict_effects[VERDICT__COUNT] = {
    /* columns: name, is_charged, breaks_row, next, detail */
    [VERDICT_FINISHED] = {"finished", false, true, CAUSE_JOINED, NULL},
    [VERDICT_AGAIN] = {"again", false, false, CAUSE_TRAINER_FAILED, NULL},
    [VERDICT_STOPPED] = {"stopped", false, true, CAUSE_NODE_LOST, NULL},
    [VERDICT_COORDINATOR] = {"coordinator", false, true, CAUSE_SERVER_LOST, NULL},
    [VERDICT_LOST_NODE] = {"lost_node", false, true, CAUSE_NODE_LOST, NULL},
    [VERDICT_PREEMPTED] = {"preempted", false, false, CAUSE_PREEMPTED, NULL},
    [VERDICT_PEER_CAUSED] = {"peer_caused", false, false, CAUSE_TRAINER_FAILED, NULL},
    [VERDICT_OWN_FAULT] = {"own_fault", true, false, CAUSE_TRAINER_FAILED, NULL},
    [VERDICT_OUT_OF_MEMORY] = {"out_of_memory", true, false, CAUSE_TRAINER_FAILED,
                               ", out of memory"},
    [VERDICT_START_TIMEOUT] = {"start_timeout", true, false, CAUSE_TRAINER_FAILED,
                               ", not started up"},
    [VERDICT_PROGRESS_TIMEOUT] = {"progress_timeout", true, false, CAUSE_TRAINER_FAILED,
                                  ", silent for too long"},
    [VERDICT_UNRECOVERABLE] = {"unrecoverable", true, false, CAUSE_TRAINER_FAILED, NULL},
};

bool verdict_has_progressed(const struct rdzv *r, const struct job *job)
{
    return progress_was_reported(&job->progress) ||
           (!plan_knows_progress(&job->plan) &&
            tfe_mono_sub(r->now, job->epoch.started) >= VERDICT_PROGRESS_MS);
}

/* Returns evidence from the other members: one has disconnected before its trainers ended, or has
 * missed renewals. Its machine may stand still, which its peers notice before its lease ends. */
static unsigned evidence_of_peers(const struct rdzv *r, const struct job *job,
                                  const struct node *but)
{
    unsigned saw = 0;
    for (uint32_t slot = 0; slot < job->epoch.n_slots && !(saw & SAW_MISSING); slot++) {
        const struct node *peer = job->epoch.slots[slot];
        /* Trainers of a slot that was taken over end when their agent learns of it. */
        bool is_lost = peer->slot.is_taken_over && peer != but;
        if ((peer->slot.is_accounted && !is_lost) || (peer != but && layout_can_lose(job, peer))) {
            continue;
        }
        if (is_lost || peer->is_gone || !node_is_connected(peer)) {
            saw |= SAW_MISSING;
        } else if (peer != but && lease_is_silent(r, peer)) {
            saw |= SAW_SILENT;
        }
    }
    return saw;
}

/* Errors that a framework prints when a peer has died (docs/tensorflow.md, docs/jax.md;
 * tensorflow/core, collective executor and coordination service). JAX's service has the same
 * origin. */
static const char *const peer_errors[] = {
    "Collective ops is aborted by",     "coordination service",
    "CoordinationServiceError",         "heartbeat timeout",
    "/tensorflow.CoordinationService/",
};
/* Errors of the transports below JAX and PyTorch. Unlike peer_errors, they count in the first line
 * of an exception of any type: JAX raises a ValueError, PyTorch a RuntimeError. Later lines may be
 * what a process prints on its way out after an exception of the script. */
static const char *const transport_errors[] = {
    "gloo/transport/tcp/",                                 /* Gloo, both */
    "remote process exited or there was a network error",  /* NCCL, both */
    "Connection was likely closed. Did the remote server", /* PyTorch's TCPStore */
    "/xla.coordination.CoordinationService/",              /* JAX */
    "RuntimeError: UNAVAILABLE: ",                         /* JAX, of a peer that is gone */
    "the JAX distributed service detected fatal errors",   /* JAX, before it aborts */
};

/* Whether one of the errors begins in the first n_text bytes of the text. */
static bool has_one_of(const char *text, size_t n_text, const char *const *errors, size_t n)
{
    const char *found = NULL;
    for (size_t i = 0; i < n && !found; i++) {
        found = strstr(text, errors[i]);
        found = found && found < text + n_text ? found : NULL;
    }
    return found;
}

/* Returns the evidence in the last lines of output: SAW_EXCEPTION, SAW_COLLECTIVE or 0. */
static unsigned read_tail(const char *tail)
{
    const char *exception = stderr_tail_exception(tail);
    const char *output = exception ? exception : tail;
    const size_t n = exception ? strcspn(exception, "\n") : strlen(tail);
    const char *type = exception ? strstr(exception, "errors_impl.") : NULL;
    if (has_one_of(output, n, transport_errors,
                   sizeof transport_errors / sizeof transport_errors[0])) {
        return SAW_COLLECTIVE;
    }
    if (exception && (!type || type > exception + n)) {
        return SAW_EXCEPTION;
    }
    bool is_peers =
        has_one_of(output, strlen(output), peer_errors, sizeof peer_errors / sizeof peer_errors[0]);
    return is_peers ? SAW_COLLECTIVE : 0;
}

bool verdict_is_good(const struct msg_exited *exited)
{
    return !exited->stopped && exited->code == 0 && exited->signal == 0;
}

bool verdict_is_useless(const struct msg_exited *exited)
{
    return !exited->stopped && exited->end == ENDING_EXITED && exited->signal == 0 &&
           exited->code == VERDICT_USELESS_CODE;
}

static enum tfe_restart_policy policy_of(const struct job *job, enum tfe_task task)
{
    return (enum tfe_restart_policy)job_restart_policy(job->spec.restart_policies, task);
}

bool verdict_is_again(const struct job *job, enum tfe_task task, const struct msg_exited *exited)
{
    return verdict_is_good(exited) && policy_of(job, task) == RESTART_ALWAYS;
}

bool verdict_is_permanent(const struct job *job, enum tfe_task task,
                          const struct msg_exited *exited, enum verdict verdict)
{
    enum tfe_restart_policy policy = policy_of(job, task);
    bool is_its_code = exited->end == ENDING_EXITED && exited->signal == 0 && exited->code < 128;
    return verdict_effects[verdict].is_charged &&
           (verdict == VERDICT_UNRECOVERABLE || policy == RESTART_NEVER ||
            (policy == RESTART_EXIT_CODE && is_its_code));
}

static const unsigned by_ending[] = {
    [ENDING_EXITED] = 0,
    [ENDING_OUT_OF_MEMORY] = SAW_MEMORY,
    [ENDING_START_TIMEOUT] = SAW_NO_START,
    [ENDING_PROGRESS_TIMEOUT] = SAW_NO_PROGRESS,
    [ENDING_START_FAILED] = SAW_ABORT,
};

static unsigned evidence_of(const struct node *node, const struct msg_exited *exited, bool was_away)
{
    const struct job *job = node->job;
    unsigned saw = was_away ? SAW_AWAY : 0;
    saw |= node->notice.is_leaving ? SAW_LEAVING : 0;
    saw |= job->plan.n_leaving > 0 ? SAW_FAREWELL : 0;
    saw |= exited->stopped ? SAW_STOPPED : 0;
    saw |= verdict_is_good(exited) ? SAW_SUCCESS : 0;
    saw |= verdict_is_useless(exited) ? SAW_USELESS : 0;
    saw |= node_is_member(node) && verdict_is_again(job, layout_task(job, node->slot.index), exited)
               ? SAW_ALWAYS
               : 0;
    if (exited->code == 42 || exited->code == 143 || exited->signal == 15) {
        saw |= SAW_PREEMPTION;
    }
    saw |= exited->end <= ENDING_START_FAILED ? by_ending[exited->end] : 0;
    if (job->epoch.n_slots > 1) {
        saw |= read_tail(exited->tail ? exited->tail : "");
    }
    return saw;
}

static enum verdict apply_rules(unsigned saw)
{
    size_t i = 0;
    while ((saw & rules[i].saw) != rules[i].saw) {
        i++;
    }
    return rules[i].verdict;
}

enum verdict verdict_find(const struct rdzv *r, const struct node *node,
                          const struct msg_exited *exited, bool was_away)
{
    const struct job *job = node->job;
    unsigned saw = evidence_of(node, exited, was_away);
    enum verdict verdict = apply_rules(saw);
    /* If ten thousand trainers end, checking ten thousand peers for each takes seconds. Once the
     * reason for the epoch's end is known, peers can only excuse an ending that would be
     * charged. */
    bool is_first = job->budget.epoch != job->epoch.number;
    if ((saw & SAW_ENOUGH) || (!is_first && !verdict_effects[verdict].is_charged)) {
        return verdict;
    }
    return apply_rules(saw | evidence_of_peers(r, job, node));
}

enum verdict verdict_find_hang(const struct rdzv *r, const struct job *job)
{
    return apply_rules(SAW_NO_PROGRESS | evidence_of_peers(r, job, NULL));
}
