/* server/log_tails.c: the last lines of trainers that failed. */
#include "server/log_tails.h"

#include <stdlib.h>

static void drop(struct log_tail **at)
{
    if (*at) {
        free((*at)->text);
        free(*at);
        *at = NULL;
    }
}

void log_tails_add(struct log_tails *tails, struct log_tail *tail)
{
    drop(&tails->v[tails->next]);
    tails->v[tails->next] = tail;
    tails->next = (tails->next + 1) % LIMIT_LOG_TAILS;
}

const struct log_tail *log_tails_get(const struct log_tails *tails, unsigned i)
{
    const bool is_full = tails->v[tails->next] != NULL;
    return i < LIMIT_LOG_TAILS ? tails->v[((is_full ? tails->next : 0) + i) % LIMIT_LOG_TAILS]
                               : NULL;
}

void log_tails_done(struct log_tails *tails)
{
    for (unsigned i = 0; i < LIMIT_LOG_TAILS; i++) {
        drop(&tails->v[i]);
    }
}
