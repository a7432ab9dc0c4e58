/* tests/unit/store/records.c: see records.h. */
#include "tests/unit/store/records.h"

#include <stdlib.h>

const struct rdzv_record *a_record(struct sample *s, const char *job, uint64_t epoch,
                                   uint64_t predecessor, uint64_t sequence)
{
    for (uint32_t i = 0; i < 2; i++) {
        (void)snprintf(s->nodes[i], sizeof(s->nodes[i]), "node-%u-of-%llu", (unsigned)i,
                       (unsigned long long)epoch);
        s->ports[i][0] = (uint16_t)(1000 + 2 * i + epoch % 1000);
        s->ports[i][1] = (uint16_t)(60000 + i);
        s->members[i] = (struct rdzv_member){.node = s->nodes[i],
                                             .name = i == 0 ? "" : "näme with 'quotes'",
                                             .host = i == 0 ? "10.0.0.1" : "fe80::1%eth0",
                                             .ports = s->ports[i],
                                             .join_order = epoch + i,
                                             .durable = i == 1,
                                             .fixed_ports = i == 0,
                                             .drained = i == 0,
                                             .known_to = s->known_to,
                                             .n_known_to = i == 0 ? 0 : 3,
                                             .proof_hash = i == 0 ? "ab12" : "",
                                             .guard_port = i == 0 ? 65535 : 0,
                                             .taken_over = i == 0};
        memcpy(s->known_to[i].text, s->nodes[i], sizeof(s->nodes[i]));
    }
    memset(s->known_to[2].text, 'x', TFE_ID_MAX); /* the longest node id */
    s->known_to[2].text[TFE_ID_MAX] = '\0';
    s->record = (struct rdzv_record){
        .sequence = sequence,
        .job = job,
        .spec.min_nodes = 1,
        .spec.max_nodes = 65536,
        .spec.nproc = 2,
        .spec.max_restarts = 4294967295u,
        .spec.gather_ms = 1,
        .spec.grow_wait_ms = 2,
        .spec.stop_grace_ms = 3,
        .spec.elastic_timeout_ms = 4,
        .spec.chief_grace_ms = 5,
        .spec.no_grow = true,
        .spec.retry_start = true,
        .spec.script_digest = 0xfedcba9876543210ull,
        .resized = true,
        .ps_resized = true,
        .epoch_ps = 2,
        .run = 7,
        .run_key = "key-1",
        .restarts = 9,
        .failed_epochs = 4,
        .backoff_ms = 60000,
        .has_progressed = true,
        .predecessor = predecessor,
        .epoch = epoch,
        .cause = CAUSE_JOINED,
        .ttl_ms = 10000,
        .fence_ms = 300000,
        .fenced = true,
        .sentence = "",
        .past = {{.run = 1, .key = {"key-0"}, .result = RESULT_FAILED, .at = {17}}},
        .n_past = 1,
        .members = s->members,
        .n_members = 2};
    return &s->record;
}

int hear(void *ctx, const struct rdzv_record *r, const char *fault)
{
    struct heard *heard = ctx;
    size_t at = strlen(heard->text);
    size_t cap = sizeof(heard->text);
    if (fault) {
        (void)snprintf(heard->text + at, cap - at, "%s aside: %s\n", r->job, fault);
        return TFE_ENOMEM; /* the store ignores this result */
    }
    if (heard->fail_with != 0) {
        return heard->fail_with;
    }
    at += (size_t)snprintf(
        heard->text + at, cap - at,
        "%s seq=%llu run=%u/%s epoch=%llu>%llu %s sizes=%u:%ux%u wishes=%u,%u,%u,%u,%u,%u%s "
        "digest=%llx restarts=%u row=%u/%u%s ttl=%u fence=%u%s over=%d/%d/%s/%u %s %d %lld/%lld:",
        r->job, (unsigned long long)r->sequence, (unsigned)r->run, r->run_key,
        (unsigned long long)r->predecessor, (unsigned long long)r->epoch, msg_cause_name(r->cause),
        (unsigned)r->spec.min_nodes, (unsigned)r->spec.max_nodes, (unsigned)r->spec.nproc,
        (unsigned)r->spec.max_restarts, (unsigned)r->spec.gather_ms, (unsigned)r->spec.grow_wait_ms,
        (unsigned)r->spec.stop_grace_ms, (unsigned)r->spec.elastic_timeout_ms,
        (unsigned)r->spec.chief_grace_ms,
        r->spec.no_grow && r->spec.retry_start && r->resized && r->ps_resized ? " flags" : "",
        (unsigned long long)r->spec.script_digest, (unsigned)r->restarts,
        (unsigned)r->failed_epochs, (unsigned)r->backoff_ms, r->has_progressed ? "+" : "",
        (unsigned)r->ttl_ms, (unsigned)r->fence_ms, r->fenced ? "+" : "", r->over, (int)r->result,
        r->sentence, (unsigned)r->past[0].run, r->past[0].key.text, (int)r->past[0].result,
        (long long)r->past[0].at.ms, (long long)r->ended.ms);
    for (uint32_t i = 0; i < r->n_members; i++) {
        const struct rdzv_member *m = &r->members[i];
        at +=
            (size_t)snprintf(heard->text + at, cap - at, " %s(%s)@%s:", m->node, m->name, m->host);
        for (uint32_t k = 0; k < r->spec.nproc; k++) {
            at += (size_t)snprintf(heard->text + at, cap - at, "%u,", (unsigned)m->ports[k]);
        }
        at += (size_t)snprintf(heard->text + at, cap - at, "%llu%s%s%s",
                               (unsigned long long)m->join_order, m->durable ? "!" : "",
                               m->fixed_ports ? " fixed" : "", m->drained ? " drained" : "");
        for (uint32_t k = 0; k < m->n_known_to; k++) {
            at += (size_t)snprintf(heard->text + at, cap - at, "<%s", m->known_to[k].text);
        }
        at += (size_t)snprintf(heard->text + at, cap - at, "+%s:%u%s",
                               m->proof_hash ? m->proof_hash : "", (unsigned)m->guard_port,
                               m->taken_over ? " over" : "");
    }
    (void)snprintf(heard->text + at, cap - at, "\n");
    return 0;
}

struct msg_epoch_row a_row(uint64_t epoch)
{
    return (struct msg_epoch_row){
        .run = 1, .epoch = epoch, .cause = CAUSE_START, .blamed = "", .members = 3};
}

/* Implements store_message_fn: writes one line per row. ctx is a struct heard. */
static int hear_row(void *ctx, const struct tfe_msg *msg)
{
    const struct msg_epoch_row *row = &msg->u.epoch_row;
    struct heard *heard = ctx;
    size_t at = strlen(heard->text);
    size_t cap = sizeof(heard->text);
    at +=
        (size_t)snprintf(heard->text + at, cap - at, "%u/%llu %s%s%s n=%u at", (unsigned)row->run,
                         (unsigned long long)row->epoch, msg_cause_name(row->cause),
                         row->blamed[0] != '\0' ? " by " : "", row->blamed, (unsigned)row->members);
    for (int i = 0; i < EPOCH__TIMES; i++) {
        at += (size_t)snprintf(heard->text + at, cap - at, "%c%lld", i > 0 ? ',' : ' ',
                               (long long)row->at[i].ms);
    }
    if (row->has_saved) {
        at += (size_t)snprintf(heard->text + at, cap - at, " saved=%llu",
                               (unsigned long long)row->saved_step);
    }
    if (row->has_lost) {
        at += (size_t)snprintf(heard->text + at, cap - at, " lost=%llu",
                               (unsigned long long)row->lost_steps);
    }
    (void)snprintf(heard->text + at, cap - at, "%s%s\n", row->planned ? " planned" : "",
                   row->over ? " over" : "");
    return heard->fail_with;
}

const char *ledger_of(struct store *store, const char *job, uint64_t after, uint32_t max,
                      struct heard *heard)
{
    struct tfe_reason reason = {.text = ""};
    *heard = (struct heard){.text = ""};
    const struct store_page page = {.type = MSG_EPOCH_ROW, .job = job, .after = after, .max = max};
    if (store_read(store, &page, hear_row, heard, &reason) != 0) {
        fail_msg("read the ledger: %s", reason.text);
    }
    return heard->text;
}

const char *all_of(struct store *store, struct heard *heard)
{
    struct tfe_reason reason = {.text = ""};
    *heard = (struct heard){.text = ""};
    if (store_load(store, hear, heard, &reason) != 0) {
        fail_msg("load: %s", reason.text);
    }
    return heard->text;
}

const char *text_of(struct heard *heard, const struct rdzv_record *record)
{
    *heard = (struct heard){.text = ""};
    (void)hear(heard, record, NULL);
    return heard->text;
}

bool to_its_end(void *ctx)
{
    (void)ctx;
    return true;
}

int put_record(struct store *store, const struct rdzv_record *record, struct tfe_reason *reason)
{
    struct store_record *packed = job_record_pack(record);
    if (!packed) {
        reason_set(reason, "out of memory");
        return TFE_ENOMEM;
    }
    int rc = store_put(store, packed, reason);
    free(packed);
    return rc;
}

int put(struct store *store, const struct rdzv_record *record, struct tfe_reason *reason)
{
    int rc = store_begin(store, reason);
    if (rc != 0) {
        return rc;
    }
    rc = put_record(store, record, reason);
    if (rc != 0) {
        store_rollback(store);
        return rc;
    }
    return store_commit(store, reason);
}
