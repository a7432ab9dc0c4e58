/* tests/fuzz/fuzz_core.c: what agents may say, in any order and with any numbers, to a server that
 * records, is killed, reads back and goes on. Whatever it writes can be read again, and whatever it
 * says has a legal form. An input is a row of acts: what is done by whom, and its numbers. */
#include <string.h>

#include "common/base/heap.h"
#include "common/handshake/seal.h"
#include "common/message/codec.h"
#include "server/core/rdzv.h"
#include "server/store/store.h"
#include "tests/fuzz/fuzz.h"

#define SESSIONS 8u
#define JOBS 2u /* and the honest one */
#define ACTS_MAX 400

static const char *const jobs[JOBS] = {"a", "b"};
static const char *const nodes[] = {"n0", "n1", "n2", "n3"};
/* What proves a death, as the core sees it: hashed. */
#define DEATHS 4u
static const char *const deaths[DEATHS] = {
    "0000000000000000000000000000000000000000000000000000000000000001",
    "0000000000000000000000000000000000000000000000000000000000000002",
    "0000000000000000000000000000000000000000000000000000000000000003", NULL};
/* The sessions' part asks whose id it is; the codec asks only for one. */
#define SECRET                                                                                     \
    "00000000000000000000000000000000"                                                             \
    "00000000000000000000000000000000"
static const struct rdzv_config config = {.incarnation = 7,
                                          .ttl_ms = 10000,
                                          .defaults = {.gather_ms = 100, .max_restarts = 3},
                                          .gather_max_ms = 1000,
                                          .exit_grace_ms = 1000,
                                          .max_sessions = SESSIONS + 1};

/* The rest of the input; reads zeros behind its end. */
struct input {
    const uint8_t *at;
    size_t n;
};

struct server {
    struct rdzv *core;
    struct tfe_mono now, deadline;
    struct store *store; /* in memory */
    bool fails;          /* the disk does */
    bool welcomed;       /* somebody was, since this was last set to false */
};

static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t v = 0;
    for (; bytes > 0 && in->n > 0; bytes--, in->at++, in->n--) {
        v = v << 8 | *in->at;
    }
    return v;
}

/* Mostly one that means something, or is the last of its kind. */
static uint64_t number(struct input *in, uint64_t near)
{
    const uint64_t v[] = {
        near,           near + 1,        near - 1,    0,          1,
        MSG_LEAP,       near + MSG_LEAP, MSG_RUN_MAX, UINT32_MAX, MSG_EPOCH_LIMIT - 1,
        MSG_NUMBER_MAX, MSG_STEP_MAX};
    uint64_t which = take(in, 1);
    return which < 0xf0 ? v[which % (sizeof(v) / sizeof(v[0]))] : take(in, 8);
}

static uint64_t epoch_of(const struct server *s, uint32_t job)
{
    struct msg_status_job status;
    return rdzv_find_job(s->core, jobs[job], &status) == 0 ? status.epoch : 0;
}

static void put_record(struct store *store, const struct rdzv_record *record)
{
    struct tfe_reason reason;
    struct store_record *packed = job_record_pack(record);
    MUST(packed && store_put(store, packed, &reason) == 0);
    free(packed);
}

/* Every server that comes next can read it. */
static void check_record(struct server *s, const struct rdzv_record *record)
{
    struct rdzv *next;
    struct tfe_reason reason;
    MUST(rdzv_new(&config, &heap_mem, &next) == 0);
    MUST(rdzv_restore(next, s->now, record) == 0);
    rdzv_free(next);
    if (!s->fails) {
        MUST(store_begin(s->store, &reason) == 0);
        put_record(s->store, record);
        MUST(store_commit(s->store, &reason) == 0);
    }
}

static void step(struct server *s, struct rdzv_event *event);

static void answer_record(struct server *s, const char *job, uint64_t sequence)
{
    step(s, &(struct rdzv_event){.type = s->fails ? RDZV_PERSIST_FAILED : RDZV_PERSISTED,
                                 .job = job,
                                 .sequence = sequence});
}

static void step(struct server *s, struct rdzv_event *event)
{
    static uint8_t bytes[SEAL_PLAIN_MAX];
    struct rdzv_actions actions;
    struct {
        struct tfe_id job;
        uint64_t sequence;
    } written[JOBS + 1];
    size_t n = 0;
    event->now = s->now;
    int rc = rdzv_step(s->core, event, &actions);
    MUST(rc == 0 || rc == TFE_EINVAL || rc == TFE_ESTATE || rc == TFE_ENOENT);
    s->deadline = actions.deadline;
    for (size_t i = 0; i < actions.n; i++) {
        const struct rdzv_action *action = &actions.v[i];
        size_t size = 0;
        MUST(action->type != RDZV_EXIT);
        if (action->type == RDZV_SEND) {
            MUST(codec_encode(&action->msg, bytes, sizeof(bytes), &size) == 0);
            s->welcomed = s->welcomed || action->msg.type == MSG_WELCOME;
        } else if (action->type == RDZV_PERSIST) {
            check_record(s, action->record);
            MUST(n <= JOBS && id_set(&written[n].job, action->record->job) == 0);
            written[n++].sequence = action->record->sequence;
        }
    }
    if (rc != 0 && event->type == RDZV_MESSAGE) {
        step(s, &(struct rdzv_event){.type = RDZV_CLOSED, .session = event->session});
    }
    for (size_t i = 0; i < n; i++) {
        answer_record(s, written[i].job.text, written[i].sequence);
    }
}

/* As it comes from the wire: what the codec does not take never reaches the core. */
static void say(struct server *s, uint32_t session, const struct tfe_msg *msg)
{
    static struct arena arena;
    static uint8_t bytes[SEAL_PLAIN_MAX];
    struct tfe_msg heard;
    size_t n = 0;
    MUST(arena.cap != 0 || arena_init(&arena, ARENA_CAP) == 0);
    arena_reset(&arena);
    if (codec_encode(msg, bytes, sizeof(bytes), &n) == 0) {
        MUST(codec_decode(&arena, bytes, n, &heard) == 0);
        step(s, &(struct rdzv_event){.type = RDZV_MESSAGE, .session = session, .msg = &heard});
    }
}

static void join(struct server *s, struct input *in, uint32_t session)
{
    uint32_t job = (uint32_t)take(in, 1) % JOBS;
    uint64_t epoch = epoch_of(s, job);
    uint64_t flags = take(in, 1);
    uint64_t who = take(in, 1);
    uint16_t ports[2] = {(uint16_t)(1000 + session), (uint16_t)(1100 + session)};
    struct tfe_msg msg = {.type = MSG_JOIN};
    struct msg_join *join = &msg.u.join;
    job_spec_init(&join->spec);
    *join = (struct msg_join){.job = jobs[job],
                              .node = nodes[who % 4],
                              .proof_hash = deaths[who / 4 % DEATHS],
                              .guard_port = (uint16_t)(who >> 4),
                              .node_name = "",
                              .node_secret = SECRET,
                              .spec = join->spec,
                              .new_run = flags & 1,
                              .run_key = flags & 2 ? nodes[flags >> 6] : NULL,
                              .highest_epoch = number(in, epoch)};
    join->spec.max_nodes = flags & 4 ? 3 : 1;
    struct msg_exited exited = {.epoch = number(in, epoch), .tail = "", .code = flags & 8};
    struct msg_running running = {.run = (uint32_t)number(in, 1),
                                  .rank = (uint32_t)take(in, 1) % 3,
                                  .nodes = flags & 16 ? 2 : 1,
                                  .world = flags & 16 ? 2 : 1,
                                  .digest = take(in, 1),
                                  .host = "h",
                                  .ports = ports,
                                  .n_ports = 1,
                                  .cause = CAUSE_START};
    join->exited = flags & 32 ? &exited : NULL;
    join->running_epoch = flags & 64 ? join->highest_epoch : 0;
    join->running = flags & 128 ? &running : NULL;
    say(s, session, &msg);
}

static void pass(struct server *s, uint64_t ms)
{
    s->now.ms += (int64_t)ms;
    for (int i = 0; i < 50 && !tfe_mono_before(s->now, s->deadline); i++) {
        step(s, &(struct rdzv_event){.type = RDZV_TICK});
    }
}

/* Whatever was said before: who is honest finds a place. */
static void check_serves(struct server *s)
{
    struct tfe_msg msg = {.type = MSG_JOIN};
    struct msg_join *join = &msg.u.join;
    job_spec_init(&join->spec);
    join->job = "honest";
    join->node = "honest";
    join->node_name = "";
    join->node_secret = SECRET;
    join->spec.max_nodes = 1;
    s->welcomed = false;
    step(s, &(struct rdzv_event){.type = RDZV_CLOSED, .session = SESSIONS});
    say(s, SESSIONS, &msg);
    pass(s, 0);
    MUST(s->welcomed);
}

static void progress(struct server *s, struct input *in, uint32_t session, uint64_t epoch)
{
    uint64_t flags = take(in, 1);
    say(s, session,
        &(struct tfe_msg){
            .type = MSG_PROGRESS,
            .u.progress = {.epoch = epoch,
                           .has_step = flags & 1,
                           .step = number(in, 100),
                           .has_saved = flags & 2,
                           .saved_step = number(in, 100),
                           .saves = (uint32_t)number(in, 3),
                           .answers = number(in, 1),
                           .listens = flags & 4,
                           .memory = {.has_snapshot = flags & 8, .epoch = epoch, .step = flags},
                           .has_from = flags & 16,
                           .from_step = flags,
                           .ends = flags & 32,
                           .snapshot_answers = flags >> 6}});
}

static int take_back(void *ctx, const struct rdzv_record *record, const char *fault)
{
    struct server *s = ctx;
    MUST(!fault && rdzv_restore(s->core, s->now, record) == 0);
    return 0;
}

/* The next server process, with what was written. */
static void restart(struct server *s)
{
    struct tfe_reason reason;
    rdzv_free(s->core);
    MUST(rdzv_new(&config, &heap_mem, &s->core) == 0);
    MUST(store_load(s->store, take_back, s, &reason) == 0);
    s->deadline = s->now;
    pass(s, 0);
}

static void small_talk(struct server *s, struct input *in, uint32_t session, uint64_t epoch,
                       uint16_t port)
{
    const uint8_t what = (uint8_t)take(in, 1);
    struct msg_ready ready = {.epoch = epoch,
                              .host = "h",
                              .ports = &port,
                              .n_ports = 1,
                              .table_digest = what >> 3,
                              .answering = true};
    struct tfe_msg msg = {.type = MSG_RENEW, .u.renew = {what}};
    switch (what & 7) {
    case 3:
        msg = (struct tfe_msg){.type = MSG_DEATH, .u.death = {deaths[(what >> 3) % (DEATHS - 1)]}};
        break;
    case 4:
        msg = (struct tfe_msg){.type = MSG_GOODBYE, .u.goodbye = {true}};
        break;
    case 5:
        msg = (struct tfe_msg){.type = MSG_READY, .u.ready = ready};
        break;
    case 6:
    case 7:
        msg = (struct tfe_msg){.type = MSG_PROBED,
                               .u.probed = {number(in, 1), (enum tfe_probe_result)(what >> 3)}};
        break;
    default:
        break;
    }
    say(s, session, &msg);
}

static void act(struct server *s, struct input *in)
{
    uint64_t what = take(in, 1);
    uint32_t session = (uint32_t)(what >> 4) % SESSIONS;
    uint32_t job = (uint32_t)(what >> 7);
    uint64_t epoch = number(in, epoch_of(s, job));
    uint16_t port = (uint16_t)(1000 + session);
    switch (what & 15) {
    case 0:
    case 1:
    case 2:
        join(s, in, session);
        break;
    case 3:
    case 4:
        say(s, session,
            &(struct tfe_msg){
                .type = MSG_READY,
                .u.ready = {.epoch = epoch, .host = "h", .ports = &port, .n_ports = 1}});
        break;
    case 5:
        progress(s, in, session, epoch);
        break;
    case 6:
        say(s, session,
            &(struct tfe_msg){
                .type = MSG_EXITED,
                .u.exited = {.epoch = epoch, .code = (uint8_t)(take(in, 1) & 1), .tail = ""}});
        break;
    case 7:
        say(s, session,
            &(struct tfe_msg){.type = MSG_NOTICE,
                              .u.notice = {.kind = (enum tfe_notice)(1 + take(in, 1) % 5),
                                           .deadline_ms = (uint32_t)number(in, 1000),
                                           .withdrawn = take(in, 1) & 1}});
        break;
    case 8:
        say(s, session, &(struct tfe_msg){.type = MSG_LISTENING, .u.listening = {epoch}});
        break;
    case 9:
        small_talk(s, in, session, epoch, port);
        break;
    case 10:
        step(s, &(struct rdzv_event){.type = RDZV_CLOSED, .session = session});
        break;
    case 11:
        step(s, &(struct rdzv_event){.type = RDZV_STOP_JOB, .job = jobs[job]});
        break;
    case 12:
        step(s, &(struct rdzv_event){
                    .type = RDZV_DRAIN, .job = jobs[job], .node = nodes[take(in, 1) % 4]});
        break;
    case 13:
        s->fails = !s->fails;
        break;
    case 14:
        restart(s);
        break;
    default:
        pass(s, take(in, 2));
        break;
    }
}

static int refuse(void *ctx, const struct rdzv_record *record, const char *fault)
{
    (void)ctx;
    (void)record;
    (void)fault;
    return TFE_EINVAL;
}

/* For the next input. */
static void forget(struct store *store)
{
    static const char *const all[] = {"a", "b", "honest"};
    struct tfe_reason reason;
    MUST(store_begin(store, &reason) == 0);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rdzv_record gone = {
            .job = all[i], .gone = true, .sequence = INT64_MAX, .epoch = INT64_MAX};
        put_record(store, &gone);
    }
    MUST(store_commit(store, &reason) == 0);
    MUST(store_load(store, refuse, NULL, &reason) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    static struct store *store; /* opened once: that takes longer than most inputs */
    struct server s = {.now = {1000000}};
    struct tfe_reason reason;
    MUST(store ||
         store_open(NULL, config.incarnation, (struct tfe_wall){1}, NULL, &store, &reason) == 0);
    s.store = store;
    restart(&s);
    for (int i = 0; i < ACTS_MAX && in.n > 0; i++) {
        act(&s, &in);
        pass(&s, 1);
    }
    s.fails = false;
    restart(&s);
    check_serves(&s);
    rdzv_free(s.core);
    forget(store);
    return 0;
}
