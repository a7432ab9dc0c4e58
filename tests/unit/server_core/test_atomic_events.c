/* tests/unit/server_core/test_atomic_events.c: an event that is refused, because it is invalid or
 * memory is exhausted, changes nothing: every entry point of the core, in every state of a job. */
#include "tests/unit/server_core/dump.h"
#include "tests/unit/server_core/operator.h"

/* --- moments: a job in each of its states --- */

static struct world *waiting(void)
{
    struct world *w = a_world(2, 3);
    join(w, 0, "a");
    return w;
}

static struct world *gathering(void)
{
    struct world *w = a_world(1, 3);
    join(w, 0, "a");
    ready(w, 0, 1);
    return w;
}

static struct world *committing(void)
{
    struct world *w = a_world(1, 1);
    w->holds_writes = true;
    join(w, 0, "a");
    ready(w, 0, 1);
    return w;
}

static struct world *running(void)
{
    return a_running_world(1, 3, 2);
}

static struct world *preparing(void)
{
    struct world *w = a_running_world(1, 3, 2);
    exited(w, 0, 1, 1);
    return w;
}

static struct world *suspecting(void)
{
    struct world *w = a_running_world(1, 3, 2);
    cut(w, 1);
    return w;
}

static struct world *failing_to_write(void)
{
    struct world *w = committing();
    assert_int_equal(write_ends(w, RDZV_PERSIST_FAILED), 0);
    return w;
}

static struct world *finished(void)
{
    struct world *w = a_running_world(1, 1, 1);
    exited(w, 0, 1, 0);
    return w;
}

static const uint16_t some_ports[] = {4000};
/* Longer than what a node has room for in any case. */
#define A_LONG_HOST "worker-12.training.a-team.svc.cluster.local.region-of-a-cloud.example.com"
static const struct msg_running some_running = {.run = 2,
                                                .rank = 0,
                                                .nodes = 3,
                                                .world = 3,
                                                .digest = 8,
                                                .host = A_LONG_HOST,
                                                .ports = some_ports,
                                                .n_ports = 1,
                                                .cause = CAUSE_START};

static struct world *rebuilding(void)
{
    struct world *w = a_world(1, 3);
    w->join.running_epoch = w->join.highest_epoch = 7;
    w->join.running = &some_running;
    join(w, 0, "a");
    w->join = usual_join(1, 3);
    return w;
}

static struct world *(*const moments[])(void) = {waiting,  gathering,        committing,
                                                 running,  preparing,        suspecting,
                                                 finished, failing_to_write, rebuilding};
#define N_MOMENTS (sizeof(moments) / sizeof(moments[0]))

/* --- events: each entry point --- */

static char long_text[5000]; /* filled by whoever needs it */
static const uint32_t two_pids[] = {7, 8};
static const struct msg_exited some_exited = {.epoch = 1, .code = 1, .tail = "the end"};

/* What an agent may say, and a shell. The job in world's moments has sizes of its own, filled
 * in. */
static const struct tfe_msg said[] = {
    {.type = MSG_RENEW, .u.renew = {.number = 1}},
    {.type = MSG_READY, .u.ready = {.epoch = 1, .host = "h", .ports = some_ports, .n_ports = 1}},
    {.type = MSG_READY, .u.ready = {.epoch = 2, .host = "h", .ports = some_ports, .n_ports = 1}},
    {.type = MSG_READY,
     .u.ready =
         {.epoch = 2, .host = A_LONG_HOST, .ports = some_ports, .n_ports = 1, .answering = true}},
    {.type = MSG_LISTENING, .u.listening = {.epoch = 1}},
    {.type = MSG_EXITED, .u.exited = {.epoch = 1, .code = 1, .tail = "no"}},
    {.type = MSG_EXITED, .u.exited = {.epoch = 1, .code = 0, .tail = ""}},
    {.type = MSG_EXITED, .u.exited = {.epoch = 1, .stopped = true, .tail = ""}},
    {.type = MSG_GOODBYE, .u.goodbye = {.drained = true}},
    {.type = MSG_PROCESSES, .u.processes = {.guard_pid = 3}},
    {.type = MSG_PROBED, .u.probed = {.probe = 8, .result = PROBE_REFUSED}},
    {.type = MSG_PROGRESS, .u.progress = {.epoch = 1, .has_step = true, .step = 4}},
    {.type = MSG_NOTICE, .u.notice = {.kind = NOTICE_PREEMPT, .deadline_ms = 30000}},
    {.type = MSG_NOTICE, .u.notice = {.kind = NOTICE_REBALANCE, .deadline_ms = MSG_UNSET}},
    {.type = MSG_MACHINE_INFO, .u.machine_info = {.has_spot = true, .is_spot = true}},
};
#define N_SAID (sizeof(said) / sizeof(said[0]))

/* JOINs: of the node that is there on another session and on its own, of newcomers to the job, to
 * no job yet and to the next run, with what runs and what has ended. */
enum {
    JOIN_BACK = N_SAID,
    JOIN_AGAIN,
    JOIN_NEW,
    JOIN_JOB,
    JOIN_RUN,
    JOIN_REPORT,
    JOIN_EXITED,
    CLOSED,
    PERSISTED,
    FAILED,
    CONFLICT,
    DRAINED,
    EVICTED,
    STOPPED_JOB,
    TICKED,
    N_EVENTS
};

static struct tfe_msg msg; /* what the event points to */

static struct rdzv_event event_of(const struct world *w, size_t i)
{
    struct rdzv_event event = {.type = RDZV_MESSAGE,
                               .now = {w->now},
                               .session = 0,
                               .msg = &msg,
                               .job = "j",
                               .node = "a",
                               .sequence = w->write};
    msg = (struct tfe_msg){.type = MSG_JOIN, .u.join = w->join};
    msg.u.join.node = msg.u.join.node_name = "a";
    if (i < N_SAID) {
        event.msg = &said[i];
        return event;
    }
    switch (i) {
    case JOIN_BACK:
        event.session = 9;
        msg.u.join.highest_epoch = msg.u.join.running_epoch = 1;
        break;
    case JOIN_NEW:
        event.session = 9;
        msg.u.join.node = "z";
        break;
    case JOIN_JOB:
        event.session = 9;
        msg.u.join.job = "k";
        break;
    case JOIN_RUN:
        event.session = 9;
        msg.u.join.node = "z";
        msg.u.join.new_run = true;
        msg.u.join.run_key = "key";
        break;
    case JOIN_REPORT:
        event.session = 9;
        msg.u.join.node = "z";
        msg.u.join.spec.max_nodes = 3;
        msg.u.join.highest_epoch = msg.u.join.running_epoch = 8;
        msg.u.join.running = &some_running;
        break;
    case JOIN_EXITED:
        event.session = 9;
        msg.u.join.highest_epoch = 1;
        msg.u.join.exited = &some_exited;
        break;
    case CLOSED:
        event.type = RDZV_CLOSED;
        break;
    case PERSISTED:
        event.type = RDZV_PERSISTED;
        break;
    case FAILED:
        event.type = RDZV_PERSIST_FAILED;
        break;
    case CONFLICT:
        event.type = RDZV_PERSIST_FAILED;
        event.conflict = true;
        break;
    case DRAINED:
        event.type = RDZV_DRAIN;
        break;
    case EVICTED:
        event.type = RDZV_EVICT;
        break;
    case STOPPED_JOB:
        event.type = RDZV_STOP_JOB;
        break;
    case TICKED:
        event.type = RDZV_TICK;
        event.now.ms = w->deadline == INT64_MAX ? w->now : w->deadline;
        break;
    }
    return event;
}

/* One step, with nobody who answers what it asks for. */
static int bare_step(struct world *w, const struct rdzv_event *event, struct rdzv_actions *ret)
{
    return rdzv_step(w->r, event, ret);
}

/* --- the stories --- */

/* Whether the event needed so much memory in this moment. */
static bool fails_at(size_t moment, size_t i, uint64_t nth)
{
    struct world *w = moments[moment]();
    struct rdzv_event event = event_of(w, i);
    struct rdzv_actions actions;
    /* A core that has worked has room for the next actions already: give that back. */
    mem_free(w->r->mem, w->r->out.v);
    w->r->out.v = NULL;
    w->r->out.cap = 0;
    char *before = dump_core(w->r);
    w->flaky.fail_at = w->flaky.asked + nth;
    int rc = bare_step(w, &event, &actions);
    bool failed = w->flaky.asked >= w->flaky.fail_at;
    if (failed && rc != TFE_ENOMEM) {
        fail_msg("moment %zu event %zu allocation %d: code %d", moment, i, (int)nth, rc);
    }
    if (rc != 0) {
        char *after = dump_core(w->r);
        if (strcmp(before, after) != 0) {
            fail_msg("moment %zu event %zu allocation %d: changed from\n%s\nto\n%s", moment, i,
                     (int)nth, before, after);
        }
        assert_int_equal(actions.n, 0);
        assert_int_equal(actions.deadline.ms, w->deadline);
        free(after);
    }
    if (rc == TFE_ENOMEM) {
        rc = bare_step(w, &event, &actions); /* the same once more, with memory */
        assert_int_not_equal(rc, TFE_ENOMEM);
    }
    free(before);
    world_free(w);
    return failed;
}

TEST(memory, failed_allocation_in_any_event_and_state_changes_nothing)
{
    uint64_t failures = 0;
    for (size_t moment = 0; moment < N_MOMENTS; moment++) {
        for (size_t i = 0; i < N_EVENTS; i++) {
            uint64_t nth = 1;
            while (fails_at(moment, i, nth)) {
                nth++;
            }
            failures += nth - 1;
        }
    }
    assert_true(failures > N_MOMENTS * N_EVENTS / 2); /* most need room for actions */
}

TEST(memory, restore_without_memory_changes_nothing)
{
    struct disk disk;
    struct world *old = a_world(1, 2);
    old->disk = &disk;
    join(old, 0, "a");
    ready(old, 0, 1);
    join(old, 1, "b");
    ready(old, 1, 1);
    world_free(old);
    disk.members[0].host = A_LONG_HOST;
    for (uint64_t nth = 1;; nth++) {
        struct world *w = a_world(1, 2);
        char *before = dump_core(w->r);
        w->flaky.fail_at = w->flaky.asked + nth;
        int rc = rdzv_restore(w->r, (struct tfe_mono){w->now}, &disk.record);
        char *after = dump_core(w->r);
        if (rc == 0) {
            assert_true(nth > 5);
        } else {
            assert_int_equal(rc, TFE_ENOMEM);
            assert_string_equal(before, after);
            assert_int_equal(rdzv_restore(w->r, (struct tfe_mono){w->now}, &disk.record), 0);
        }
        free(before);
        free(after);
        world_free(w);
        if (rc == 0) {
            return;
        }
    }
}

/* Legal nowhere, or not for who says it. */
static const struct {
    int rc; /* 0: TFE_EINVAL from who is there, TFE_ESTATE from who is not */
    struct rdzv_event event;
    struct tfe_msg msg;
} senseless[] = {
    {TFE_EINVAL, {.type = RDZV_MESSAGE, .session = SESSIONS}, {.type = MSG_RENEW}},
    {TFE_EINVAL, {.type = RDZV_MESSAGE, .session = UINT32_MAX}, {.type = MSG_RENEW}},
    {TFE_EINVAL, {.type = RDZV_CLOSED, .session = SESSIONS}, {0}},
    {TFE_ESTATE, {.type = RDZV_MESSAGE, .session = 40}, {.type = MSG_RENEW}},
    {TFE_ESTATE, {.type = RDZV_MESSAGE, .session = 40}, {.type = MSG_GOODBYE}},
    {TFE_ESTATE, {.type = RDZV_MESSAGE, .session = 40}, {.type = MSG_EXITED}},
    {TFE_EINVAL, {.type = RDZV_PERSISTED, .job = "nobody"}, {0}},
    {TFE_EINVAL, {.type = RDZV_PERSISTED}, {0}},
    {TFE_EINVAL, {.type = RDZV_PERSIST_FAILED, .job = "no job's name"}, {0}},
    {TFE_ENOENT, {.type = RDZV_DRAIN, .job = "j", .node = "nobody"}, {0}},
    {TFE_ENOENT, {.type = RDZV_EVICT, .job = "j"}, {0}},
    {TFE_ENOENT, {.type = RDZV_EVICT, .job = "j", .node = "no id"}, {0}},
    {TFE_ENOENT, {.type = RDZV_STOP_JOB, .job = "nobody"}, {0}},
    {TFE_ENOENT, {.type = RDZV_STOP_JOB}, {0}},
    {0, {.type = RDZV_MESSAGE}, {.type = MSG_WELCOME}},
    {0, {.type = RDZV_MESSAGE}, {.type = MSG_CANCEL}},
    {0, {.type = RDZV_MESSAGE}, {.type = (enum tfe_msg_type)200}},
    {0, {.type = RDZV_MESSAGE}, {.type = MSG_READY, .u.ready = {.epoch = 2, .host = "h"}}},
    {0,
     {.type = RDZV_MESSAGE},
     {.type = MSG_READY,
      .u.ready = {.epoch = 2, .host = long_text, .ports = some_ports, .n_ports = 1}}},
    {0,
     {.type = RDZV_MESSAGE},
     {.type = MSG_EXITED, .u.exited = {.epoch = 1, .local_rank = 9, .tail = ""}}},
    {0, {.type = RDZV_MESSAGE}, {.type = MSG_EXITED, .u.exited = {.epoch = 1, .tail = long_text}}},
    {0,
     {.type = RDZV_MESSAGE},
     {.type = MSG_PROCESSES, .u.processes = {.trainer_pids = two_pids, .n_trainer_pids = 2}}},
    {0,
     {.type = RDZV_MESSAGE},
     {.type = MSG_PROBED, .u.probed = {.probe = 1, .result = (enum tfe_probe_result)9}}},
    {TFE_EINVAL, {.type = RDZV_MESSAGE, .session = 9}, {.type = MSG_JOIN, .u.join = {.job = "j"}}},
    {TFE_EINVAL,
     {.type = RDZV_MESSAGE, .session = 9},
     {.type = MSG_JOIN,
      .u.join = {.job = "j",
                 .node = "z",
                 .node_name = "z",
                 .spec.min_nodes = 1,
                 .spec.max_nodes = 3,
                 .spec.nproc = 1,
                 .highest_epoch = UINT64_MAX}}},
    {TFE_EINVAL,
     {.type = RDZV_MESSAGE, .session = 9},
     {.type = MSG_JOIN,
      .u.join = {.job = "j",
                 .node = "z",
                 .node_name = "z",
                 .spec.min_nodes = 1,
                 .spec.max_nodes = 2, /* fewer than what it says that it runs */
                 .spec.nproc = 1,
                 .highest_epoch = 7,
                 .running_epoch = 7,
                 .running = &some_running}}},
    {TFE_EINVAL,
     {.type = RDZV_MESSAGE, .session = 9},
     {.type = MSG_JOIN,
      .u.join = {.job = "j",
                 .node = "z",
                 .node_name = "z",
                 .spec.min_nodes = 1,
                 .spec.max_nodes = 3,
                 .spec.nproc = 1,
                 .run_key = "no key"}}},
};

TEST(sense, illegal_event_in_any_state_is_refused_without_effect)
{
    memset(long_text, 'x', sizeof(long_text) - 1);
    for (size_t moment = 0; moment < N_MOMENTS; moment++) {
        struct world *w = moments[moment]();
        bool is_there = w->r->by_session[0] != NULL;
        for (size_t i = 0; i < sizeof(senseless) / sizeof(senseless[0]); i++) {
            struct rdzv_event event = senseless[i].event;
            event.now.ms = w->now;
            event.msg = &senseless[i].msg;
            int expected = senseless[i].rc ? senseless[i].rc : is_there ? TFE_EINVAL : TFE_ESTATE;
            struct rdzv_actions actions;
            char *before = dump_core(w->r);
            int rc = bare_step(w, &event, &actions);
            char *after = dump_core(w->r);
            if (rc != expected || strcmp(before, after) != 0 || actions.n != 0) {
                fail_msg("moment %zu row %zu: %d instead of %d, from\n%s\nto\n%s", moment, i, rc,
                         expected, before, after);
            }
            free(before);
            free(after);
        }
        world_free(w);
    }
}
