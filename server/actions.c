/* server/actions.c: carries out what a step of the core asks for, in its order. */
#include "server/actions.h"

#include "server/table_chunks.h"
#include "server/trace_log.h"

static void send_table(struct sessions *sessions, struct table_cache *cache,
                       const struct rdzv_action *action)
{
    struct table_chunks *chunks;
    if (table_cache_get(cache, &action->msg.u.table, &chunks) != 0) {
        sessions_fail(sessions, action->session);
        return;
    }
    sessions_send_table(sessions, action->session, chunks);
}

void actions_run(const struct rdzv_actions *actions, struct sessions *sessions)
{
    struct table_cache cache = {.first = NULL};
    for (size_t i = 0; i < actions->n; i++) {
        const struct rdzv_action *action = &actions->v[i];
        switch (action->type) {
        case RDZV_SEND:
            if (action->msg.type == MSG_TABLE) {
                send_table(sessions, &cache, action);
            } else {
                sessions_send(sessions, action->session, &action->msg);
            }
            break;
        case RDZV_CLOSE:
            sessions_close(sessions, action->session);
            break;
        case RDZV_PERSIST: /* the driver's */
        case RDZV_EXIT:
            break;
        case RDZV_LEDGER:
            break;
        case RDZV_TRACE:
            trace_log(&action->trace);
            break;
        }
    }
    table_cache_done(&cache);
}
