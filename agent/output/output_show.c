/* agent/output/output_show.c: parses --tee and --log-filter-ranks. */
#include "agent/output/output_show.h"

#include <string.h>

#include "common/cli/options.h"

#define TEE_BOTH 3

void output_show_init(struct output_show *show)
{
    *show = (struct output_show){.n_ranges = 0};
    memset(show->tee, TEE_BOTH, sizeof(show->tee));
}

/* Skips a comma before the next item. Returns false if there is neither a comma nor the end. */
static bool next_item(const char **at)
{
    if (**at == ',' && (*at)[1]) {
        (*at)++;
        return true;
    }
    return **at == '\0';
}

int output_show_tee(void *ret, const char *text, struct tfe_reason *reason)
{
    struct output_show *show = ret;
    struct output_show made = *show;
    const char *at = text;
    uint64_t value;
    if (options_digits(&at, TEE_BOTH, &value) && !*at) {
        memset(show->tee, (int)value, sizeof(show->tee));
        return 0;
    }
    memset(made.tee, 0, sizeof(made.tee));
    bool good = *text != '\0';
    for (at = text; good && *at;) {
        uint64_t local;
        good = options_digits(&at, MSG_NPROC_MAX - 1, &local) && *at++ == ':' &&
               options_digits(&at, TEE_BOTH, &value) && next_item(&at);
        if (good) {
            made.tee[local] = (uint8_t)value;
        }
    }
    if (!good) {
        reason_set(reason,
                   "expected 0 (nothing), 1 (stdout), 2 (stderr) or 3 (both), or a list of local "
                   "ranks with one of these each, such as 0:3,1:1; found \"%s\"",
                   text);
        return TFE_EINVAL;
    }
    *show = made;
    return 0;
}

int output_show_ranks(void *ret, const char *text, struct tfe_reason *reason)
{
    struct output_show *show = ret;
    struct output_show made = *show;
    made.n_ranges = 0;
    bool good = *text != '\0';
    for (const char *at = text; good && *at;) {
        uint64_t first = 0;
        uint64_t last;
        good = made.n_ranges < OUTPUT_RANGES_MAX && options_digits(&at, UINT32_MAX, &first);
        last = first;
        if (good && *at == '-') {
            at++;
            good = options_digits(&at, UINT32_MAX, &last) && first <= last;
        }
        good = good && next_item(&at);
        if (good) {
            made.ranges[made.n_ranges].first = (uint32_t)first;
            made.ranges[made.n_ranges++].last = (uint32_t)last;
        }
    }
    if (!good) {
        reason_set(reason,
                   "expected a list of at most %d ranks and ranges, such as 0,4-7; found \"%s\"",
                   OUTPUT_RANGES_MAX, text);
        return TFE_EINVAL;
    }
    *show = made;
    return 0;
}

bool output_is_shown(const struct output_show *show, uint32_t local_rank, uint32_t rank,
                     enum tfe_stream stream)
{
    unsigned bit = stream == STREAM_STDOUT ? 1 : 2;
    if (local_rank >= MSG_NPROC_MAX || !(show->tee[local_rank] & bit)) {
        return false;
    }
    for (size_t i = 0; i < show->n_ranges; i++) {
        if (rank >= show->ranges[i].first && rank <= show->ranges[i].last) {
            return true;
        }
    }
    return show->n_ranges == 0;
}
