/* server/store/job_record.c: serialises job records. Changing the visited fields requires a new
 * SQLITE_STORE_SCHEMA. */
#include "server/store/job_record.h"

#include <stdlib.h>
#include <string.h>

#include "server/store/pack.h"

/* Minimum size of a serialised member: empty texts and one port. */
#define MEMBER_BYTES_MIN 12u

#define VISIT_COUNT pack_u32
#define VISIT_DURATION pack_u32
#define VISIT_FLAG pack_bool
#define VISIT_DIGEST pack_u64
#define VISIT_SPEC(name, type, kind, ...) VISIT_##kind(p, &r->spec.name);

static void visit_past(struct pack *p, struct rdzv_run_end *past)
{
    const char *key = past->key.text;
    uint32_t result = past->result;
    pack_u32(p, &past->run);
    pack_text(p, &key);
    pack_u32(p, &result);
    pack_wall(p, &past->at);
    past->result = (enum tfe_result)result;
    if (p->in && p->rc == 0 && id_set(&past->key, key) != 0) {
        p->rc = TFE_EINVAL;
    }
}

static void visit_record(struct pack *p, struct rdzv_record *r)
{
    uint32_t cause = r->cause;
    uint32_t result = r->result;
    pack_u64(p, &r->sequence);
    pack_u32(p, &r->run);
    pack_u64(p, &r->epoch);
    pack_u64(p, &r->predecessor);
    pack_u32(p, &cause);
    JOB_SPEC_FIELDS(VISIT_SPEC)
    pack_u32(p, &r->epoch_ps);
    pack_bool(p, &r->resized);
    pack_bool(p, &r->ps_resized);
    pack_text(p, &r->run_key);
    pack_u32(p, &r->restarts);
    pack_u32(p, &r->failed_epochs);
    pack_u32(p, &r->backoff_ms);
    pack_bool(p, &r->has_progressed);
    pack_u32(p, &r->ttl_ms);
    pack_u32(p, &r->fence_ms);
    pack_bool(p, &r->over);
    pack_bool(p, &r->fenced);
    pack_u32(p, &result);
    pack_text(p, &r->sentence);
    pack_wall(p, &r->ended);
    pack_u32(p, &r->n_past);
    for (uint32_t i = 0; i < r->n_past && i < RDZV_RUNS_MAX; i++) {
        visit_past(p, &r->past[i]);
    }
    pack_u32(p, &r->n_members);
    r->cause = (enum tfe_cause)cause;
    r->result = (enum tfe_result)result;
}

static void visit_member(struct pack *p, struct rdzv_member *m)
{
    pack_text(p, &m->node);
    pack_text(p, &m->name);
    pack_text(p, &m->host);
    pack_u64(p, &m->join_order);
    pack_bool(p, &m->durable);
    pack_bool(p, &m->fixed_ports);
    pack_bool(p, &m->drained);
    pack_text(p, &m->proof_hash);
    pack_u32(p, &m->guard_port);
    pack_bool(p, &m->taken_over);
    pack_u32(p, &m->n_known_to);
}

struct store_record *job_record_pack(const struct rdzv_record *record)
{
    struct rdzv_record r = *record;
    struct pack p = {.n = 0};
    visit_record(&p, &r);
    for (uint32_t i = 0; i < r.n_members; i++) {
        struct rdzv_member m = r.members[i];
        visit_member(&p, &m);
        for (uint32_t k = 0; k < r.spec.nproc; k++) {
            uint32_t port = m.ports[k];
            pack_u32(&p, &port);
        }
        for (uint32_t k = 0; k < m.n_known_to; k++) {
            const char *id = m.known_to[k].text;
            pack_text(&p, &id);
        }
    }
    struct store_record *ret = p.rc == 0 ? malloc(sizeof(*ret) + p.n) : NULL;
    if (ret) {
        *ret = (struct store_record){.sequence = r.sequence,
                                     .predecessor = r.predecessor,
                                     .epoch = r.epoch,
                                     .run = r.run,
                                     .n_members = r.n_members,
                                     .cause = r.cause,
                                     .gone = r.gone,
                                     .over = r.over,
                                     .n = p.n};
        (void)id_set(&ret->job, r.job); /* job names of the core are valid ids */
        memcpy(ret->bytes, p.out, p.n);
    }
    free(p.out);
    return ret;
}

/* --- deserialisation -------------------------------------------------------------------------- */

/* True if cause and result are known values; 0 stands for a job that never had an epoch, or has not
 * ended. */
static bool is_known(const struct rdzv_record *r)
{
    return (r->cause == 0 || msg_cause_name(r->cause)[0] != '?') &&
           (r->result == 0 || msg_result_name(r->result)[0] != '?');
}

static void read_member(struct pack *p, struct rdzv_member *m, uint16_t *ports, uint32_t n_ports,
                        struct tfe_id *known_to)
{
    visit_member(p, m);
    for (uint32_t k = 0; k < n_ports; k++) {
        uint32_t port = 0;
        pack_u32(p, &port);
        if (port == 0 || port > UINT16_MAX) {
            p->rc = p->rc != 0 ? p->rc : TFE_EINVAL;
        }
        ports[k] = (uint16_t)port;
    }
    if (m->n_known_to > RDZV_KNOWN_TO_MAX) {
        p->rc = TFE_EINVAL;
    }
    for (uint32_t k = 0; p->rc == 0 && k < m->n_known_to; k++) {
        const char *id = "";
        pack_text(p, &id);
        if (p->rc == 0 && id_set(&known_to[k], id) != 0) {
            p->rc = TFE_EINVAL;
        }
    }
    m->ports = ports;
    m->known_to = known_to;
}

int job_record_unpack(const char *job, const uint8_t *bytes, size_t n, struct rdzv_record **ret)
{
    struct pack p = {.in = bytes, .n = n};
    struct rdzv_record head = {.job = job};
    *ret = NULL;
    visit_record(&p, &head);
    const size_t n_members = head.n_members;
    const uint32_t nproc = head.spec.nproc;
    if (p.rc != 0 || !is_known(&head) || head.n_past > RDZV_RUNS_MAX || n_members > MSG_NODES_MAX ||
        n_members > (n - p.at) / MEMBER_BYTES_MIN || nproc < 1 || nproc > MSG_NPROC_MAX) {
        return TFE_EINVAL;
    }
    const size_t known_to = RDZV_KNOWN_TO_MAX * sizeof(struct tfe_id);
    struct rdzv_record *r =
        calloc(1, sizeof(*r) + n_members * (sizeof(struct rdzv_member) + nproc * sizeof(uint16_t) +
                                            known_to));
    if (!r) {
        return TFE_ENOMEM;
    }
    struct rdzv_member *members = (void *)(r + 1);
    uint16_t *ports = (void *)(members + n_members);
    struct tfe_id *ids = (void *)(ports + n_members * nproc);
    for (size_t i = 0; p.rc == 0 && i < n_members; i++) {
        read_member(&p, &members[i], ports + i * nproc, nproc, ids + i * RDZV_KNOWN_TO_MAX);
    }
    if (p.rc != 0 || p.at != n) {
        free(r);
        return TFE_EINVAL;
    }
    *r = head;
    r->members = members;
    *ret = r;
    return 0;
}
