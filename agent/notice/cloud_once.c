/* agent/notice/cloud_once.c: see cloud_once.h. */
#include "agent/notice/cloud_once.h"

#include <event2/event.h>
#include <stdlib.h>

#include "agent/notice/notice.h"
#include "common/net/heap.h"
#include "common/net/timer.h"

struct cloud_once {
    struct notice_choice choice;
    struct notices *notices; /* NULL: it has told */
    struct event *over;
    void (*told)(void *ctx, const struct cloud_facts *facts);
    void *ctx;
};

/* Not from inside an answer of the service. */
static void on_over(evutil_socket_t fd, short what, void *ctx)
{
    struct cloud_once *once = ctx;
    notices_free(once->notices);
    once->notices = NULL;
}

static void on_cloud(void *ctx, const struct cloud_facts *facts)
{
    struct cloud_once *once = ctx;
    timer_after(once->over, 0);
    once->told(once->ctx, facts);
}

static void on_notice(void *ctx, const struct agent_notice *notice, const char *from)
{
    /* for whoever works here: an agent of a job watches by itself */
}

struct cloud_once *cloud_once_new(struct event_base *base, const struct notice_choice *choice,
                                  void (*told)(void *ctx, const struct cloud_facts *facts),
                                  void *ctx)
{
    struct cloud_once *once = part_new(sizeof *once);
    once->choice = *choice;
    once->told = told;
    once->ctx = ctx;
    once->over = evtimer_new(base, on_over, once);
    part_must(once->over);
    notice_choice_settle(&once->choice, "/sys");
    for (size_t from = FROM_AZURE + 1; from < FROM__COUNT; from++) {
        once->choice.wanted[from] = WANTED_NEVER;
    }
    const struct notice_wish wish = {
        .choice = &once->choice, .pace = &notice_pace_default, .on_cloud = on_cloud};
    once->notices = notices_new(base, &wish, on_notice, once);
    notices_set_running(once->notices, true); /* no cloud is told that all has ended here */
    return once;
}

void cloud_once_free(struct cloud_once *once)
{
    if (once) {
        notices_free(once->notices);
        event_drop(&once->over);
        free(once);
    }
}
