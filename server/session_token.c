/* server/session_token.c: ends sessions when their tokens expire or are revoked. */
#include <event2/event.h>

#include "common/base/clock.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "server/session.h"

/* Maximum interval between checks: timers of the event loop do not follow changes of the wall
 * clock. */
#define TOKEN_CHECK_MS 10000

/* Schedules a check at this time; when.ms 0 schedules nothing. */
static void schedule_token_check(struct sessions *all, struct tfe_wall when)
{
    if (when.ms != 0 && (all->token_check_at.ms == 0 || when.ms < all->token_check_at.ms)) {
        int64_t ms = when.ms - clock_wall().ms;
        all->token_check_at = when;
        (void)timer_after(&all->token_check, ms < 0                ? 0
                                             : ms > TOKEN_CHECK_MS ? TOKEN_CHECK_MS
                                                                   : ms);
    }
}

bool session_check_token(struct session *s, struct tfe_wall now)
{
    const char *fault = keyring_fault(keys_ring(s->all->keys), s->by, now);
    if (fault) {
        session_dismiss(s, fault);
        return false;
    }
    schedule_token_check(s->all, s->by->expires);
    return true;
}

static void store_report(void *ctx, const struct msg_token_row *row)
{
    struct sessions *all = ctx;
    const struct tfe_msg msg = {.type = MSG_TOKEN_ROW, .u.token_row = *row};
    if (writer_put(all->writer, &msg, NULL, NULL, NULL) != 0) {
        log_warn("token_use_not_stored", LOG_S("key", row->key));
    }
}

/* Ending a session is an event for the core, and its actions may end other sessions. */
static void on_token_check(evutil_socket_t fd, short what, void *ctx)
{
    struct sessions *all = ctx;
    const struct tfe_wall now = clock_wall();
    all->token_check_at = (struct tfe_wall){0};
    keyring_expire(keys_ring(all->keys), now, store_report, all);
    for (uint32_t i = 0; i < all->n_fresh; i++) {
        struct session *s = all->by_number[i];
        if (s && s->phase == SESSION_OPEN) {
            (void)session_check_token(s, now);
        }
    }
    for (struct session *s = TAILQ_FIRST(&all->list), *next; s; s = next) {
        next = TAILQ_NEXT(s, link);
        if (s->number == SESSION_NO_NUMBER && s->phase == SESSION_OPEN) {
            (void)session_check_token(s, now); /* not an agent: the core is not notified */
        }
    }
    if (all->token_check_at.ms == 0) {
        (void)timer_after(&all->token_check, TOKEN_CHECK_MS);
    }
}

static void on_keys_changed(void *ctx)
{
    struct sessions *all = ctx;
    event_active(&all->token_check, EV_TIMEOUT, 0);
}

void sessions_check_init(struct sessions *all)
{
    (void)evtimer_assign(&all->token_check, all->base, on_token_check, all);
    keyring_watch(keys_ring(all->keys), on_keys_changed, all);
    (void)timer_after(&all->token_check, TOKEN_CHECK_MS);
}

void sessions_check_done(struct sessions *all)
{
    keyring_watch(keys_ring(all->keys), NULL, NULL);
    if (event_initialized(&all->token_check)) {
        (void)event_del(&all->token_check);
    }
}
