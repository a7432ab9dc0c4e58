/* agent/output/output_show.h: selects the trainers whose output appears on the agent's own
 * streams (--tee, --log-filter-ranks). */
#ifndef TFE_AGENT_OUTPUT_OUTPUT_SHOW_H
#define TFE_AGENT_OUTPUT_OUTPUT_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

#define OUTPUT_RANGES_MAX 64

struct output_show {
    bool is_on_terminal;        /* another process copies the agent's streams to a terminal */
    uint8_t tee[MSG_NPROC_MAX]; /* by local rank: 1 stdout, 2 stderr, 3 both */
    size_t n_ranges;            /* 0 to show every rank */
    struct {
        uint32_t first, last;
    } ranges[OUTPUT_RANGES_MAX];
};

/* Selects both streams of all trainers. */
void output_show_init(struct output_show *show);

/* Parsers of option values; both store into a struct output_show. */

/* Parses --tee as torchrun does: 0, 1, 2 or 3 for all trainers of the node, or "0:3,1:1" by
 * local rank; ranks that are not listed show nothing. Returns TFE_EINVAL with reason and
 * leaves *show unchanged. */
int output_show_tee(void *show, const char *text, struct tfe_reason *reason);

/* Parses a list of ranks and ranges: "0,4-7". Returns TFE_EINVAL with reason and
 * leaves *show unchanged. */
int output_show_ranks(void *show, const char *text, struct tfe_reason *reason);

bool output_is_shown(const struct output_show *show, uint32_t local_rank, uint32_t rank,
                     enum tfe_stream stream);

#endif
