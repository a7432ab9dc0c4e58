/* server/action_executor.c: executes the actions of a step of the core, in their order. */
#include "server/action_executor.h"

#include "common/base/clock.h"
#include "common/cli/log.h"
#include "server/events/counters.h"
#include "server/events/event_text.h"
#include "server/table_stream.h"

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

static void persist(struct outlets *to, const struct rdzv_record *record)
{
    if (writer_submit(to->writer, record) != 0) {
        struct lost_record *lost = &to->lost[to->n_lost++];
        lost->sequence = record->sequence;
        (void)id_set(&lost->job, record->job); /* job names of the core are valid ids */
    }
}

/* Converts a monotonic time of the core to wall-clock time. */
static struct tfe_wall wall_of(struct tfe_mono t, struct tfe_mono now, struct tfe_wall now_wall)
{
    struct tfe_wall wall = {.ms = 0};
    if (!tfe_mono_is_never(t)) {
        wall.ms = now_wall.ms - tfe_mono_sub(now, t);
    }
    return wall;
}

/* If memory runs out, the entry is missing from the ledger; nothing else is affected. */
static void note(struct outlets *to, const struct rdzv_ledger *ledger)
{
    struct tfe_mono now = clock_mono();
    struct tfe_wall now_wall = clock_wall();
    struct msg_epoch_row row = ledger->row;
    for (size_t i = 0; i < EPOCH__TIMES; i++) {
        row.at[i] = wall_of(ledger->at[i], now, now_wall);
    }
    if (to->gauges) {
        counters_add_epoch(to->gauges, ledger->job, &row);
    }
    if (to->events) {
        event_of_ledger(to->events, ledger->job, &row);
    }
    if (writer_put_ledger(to->writer, ledger->job, &row) != 0) {
        log_warn("ledger_row_lost", LOG_S("job", ledger->job), LOG_U("epoch", row.epoch));
    }
}

void actions_run(const struct rdzv_actions *actions, struct outlets *to)
{
    struct table_cache cache = {.first = NULL};
    for (size_t i = 0; i < actions->n; i++) {
        const struct rdzv_action *action = &actions->v[i];
        switch (action->type) {
        case RDZV_SEND:
            if (action->msg.type == MSG_TABLE) {
                send_table(to->sessions, &cache, action);
            } else {
                sessions_send(to->sessions, action->session, &action->msg);
            }
            break;
        case RDZV_CLOSE:
            sessions_close(to->sessions, action->session);
            break;
        case RDZV_PERSIST:
            persist(to, action->record);
            break;
        case RDZV_EXIT:
            to->exit = action->sentence;
            break;
        case RDZV_LEDGER:
            note(to, action->ledger);
            break;
        case RDZV_TRACE:
            for (unsigned k = 0; k < LISTENERS_MAX && to->listeners[k].fn; k++) {
                to->listeners[k].fn(to->listeners[k].ctx, &action->trace);
            }
            break;
        }
    }
    table_cache_done(&cache);
}
