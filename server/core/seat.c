/* server/core/seat.c: a node's part in its job's current epoch. */
#include "server/core/seat.h"

#include "server/core/job.h"

/* Number of STARTs that a node may answer with JOIN on one connection, because its lease had just
 * ended, for example. */
#define VOIDS_MAX 1

void seat_take(struct node *node, uint32_t index)
{
    node->seat.index = index;
}

void seat_leave(struct node *node)
{
    node->seat = SEAT_NONE;
}

void seat_adopt(struct node *node, uint32_t index, bool is_listening)
{
    node->seat.index = index;
    node->seat.is_started = true;
    node->seat.is_listening = is_listening;
    node->seat.is_accounted = false;
}

void seat_restore(struct node *node, uint32_t index)
{
    seat_adopt(node, index, false);
    node->seat.is_restored = true;
}

void seat_account(struct node *node)
{
    struct seat *seat = &node->seat;
    if (seat->index != NO_SEAT && !seat->is_accounted && !seat->is_taken_over) {
        seat->is_accounted = true;
        epoch_count_accounted(&node->job->epoch);
    }
}

bool seat_count_success(struct node *node)
{
    bool is_news = !node->seat.has_counted; /* a slot that was taken over may report it twice */
    node->seat.has_counted = true;
    return is_news;
}

void seat_prove_dead(struct node *node)
{
    seat_account(node);
    node->seat.is_dead = true;
}

void seat_is_back(struct node *node)
{
    node->seat.is_dead = false;
    node->seat.save_told = 0; /* the SAVE may have been lost with the last connection */
}

bool seat_start(struct node *node)
{
    bool is_here = node_is_connected(node);
    node->seat.is_started = true;
    node->seat.told_visit = is_here ? node->session.visit : node->seat.told_visit;
    return is_here;
}

void seat_set_listening(struct node *node)
{
    node->seat.is_listening = true;
}

void seat_set_told(struct node *node, const struct msg_progress *progress)
{
    node->seat.has_told = true;
    node->seat.is_alone = node->seat.is_alone || progress->alone;
    node->seat.listens = progress->listens;
    node->seat.kept_answers = progress->kept_answers;
}

void seat_set_save_told(struct node *node, uint64_t number)
{
    node->seat.save_told = number;
}

void seat_take_over(struct node *node, struct tfe_mono fence_end)
{
    struct seat *seat = &node->seat;
    if (seat->index != NO_SEAT && !seat->is_accounted && !seat->is_taken_over) {
        seat->is_taken_over = true;
        seat->taken_fence_end = fence_end;
    }
}

bool seat_has_voided(struct node *node)
{
    struct seat *seat = &node->seat;
    return seat->told_visit == node->session.visit && ++seat->n_void > VOIDS_MAX;
}

void seat_wait(struct node *node, struct tfe_mono now, uint32_t pause_ms, uint32_t n_vain)
{
    node->seat.is_due = true;
    node->seat.pause_ms = pause_ms;
    node->seat.due = tfe_mono_add(now, pause_ms);
    node->seat.n_vain = n_vain;
}

/* Notes that a trainer of the node runs or is about to. */
static void unaccount(struct node *node)
{
    if (node->seat.is_accounted) {
        node->seat.is_accounted = false;
        epoch_uncount_accounted(&node->job->epoch);
    }
    node->seat.is_due = false;
    node->seat.is_done = false;
}

void seat_restart(struct node *node, uint64_t step)
{
    unaccount(node);
    node->seat.n_restarts++;
    node->seat.began_at = step;
    node->seat.n_void = 0;
    if (node->seat.is_listening) {
        node->seat.is_listening = false;
        epoch_uncount_listening(&node->job->epoch);
    }
    seat_tell_again(node);
}

void seat_tell_again(struct node *node)
{
    node->seat.told_visit = node->session.visit;
}

void seat_note_restarts(struct node *node, uint64_t restart)
{
    if (restart > node->seat.n_restarts) {
        node->seat.n_restarts = restart;
    }
}

void seat_resume(struct node *node, uint64_t restart)
{
    unaccount(node);
    seat_note_restarts(node, restart);
}

void seat_leave_empty(struct node *node, uint32_t n_vain)
{
    node->seat.n_vain = n_vain;
    node->seat.is_due = false;
    node->seat.will_drain = false;
}

void seat_set_idle(struct node *node, struct tfe_mono since)
{
    node->seat.idle_since = since;
}

void seat_finish(struct node *node)
{
    node->seat.is_done = true;
    node->seat.is_due = false;
    node->seat.will_drain = false;
}

void seat_drain(struct node *node, struct tfe_mono due)
{
    node->seat.will_drain = true;
    node->seat.due = due;
}

void seat_stay(struct node *node)
{
    node->seat.will_drain = false;
}

void seat_begin_drain(struct node *node)
{
    node->seat.will_drain = false;
    node->seat.is_draining = true;
}

struct tfe_mono seat_fence_end(const struct node *node)
{
    const struct seat *seat = &node->seat;
    return seat->is_taken_over ? seat->taken_fence_end : node->lease.fence_end;
}
