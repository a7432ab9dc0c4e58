/* server/core/report.c: a node's report of its part in the epoch that is being rebuilt. */
#include "server/core/job.h"

void report_begin(struct node *node, uint32_t seat, uint64_t restart)
{
    node->report = (struct report){.is_given = true, .seat = seat, .restart = restart};
}

void report_done(struct node *node)
{
    node->report.is_given = false;
}

bool report_take_listening(struct node *node, uint64_t epoch)
{
    if (!node->report.is_given || epoch != node->job->rebuild.epoch) {
        return false;
    }
    node->report.is_listening = true;
    return true;
}

bool report_take_end(struct node *node, const struct msg_exited *exited)
{
    struct report *report = &node->report;
    if (!report->is_given || exited->epoch != node->job->rebuild.epoch) {
        return false;
    }
    report->has_ended = true;
    report->restart = exited->restart;
    report->stopped = exited->stopped;
    report->code = (uint8_t)exited->code;
    report->signal = (uint8_t)exited->signal;
    return true;
}

void report_forget(struct node *node)
{
    if (node->report.is_given) {
        report_done(node);
        bool runs = !node->report.has_ended;
        rebuild_count_out(&node->job->rebuild, runs ? node->lease.fence_end : (struct tfe_mono){0});
    }
}
