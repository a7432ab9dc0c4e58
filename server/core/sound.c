/* server/core/sound.c: validation of a record. */
#include "server/core/sound.h"

#include <string.h>

#include "server/core/roster.h"

static bool member_is_sound(const struct rdzv_member *member, uint32_t nproc)
{
    if (member->n_known_to > RDZV_KNOWN_TO_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < member->n_known_to; i++) {
        if (!id_is_valid(member->known_to[i].text)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < nproc; i++) {
        if (member->ports[i] == 0) {
            return false;
        }
    }
    bool has_death = member->proof_hash && member->proof_hash[0];
    return id_is_valid(member->node) && (!has_death || id_is_valid(member->proof_hash)) &&
           member->guard_port <= UINT16_MAX && member->name &&
           (member->name[0] == '\0' || id_is_valid(member->name)) && member->host &&
           member->host[0] && strnlen(member->host, TFE_HOST_MAX + 1) <= TFE_HOST_MAX;
}

/* Returns how many of the recorded members are no workers. */
static uint32_t epoch_extra(const struct rdzv_record *record)
{
    struct job_spec spec = record->spec;
    spec.n_ps = record->epoch_ps ? record->epoch_ps : spec.n_ps;
    return roster_extra(&spec);
}

bool record_is_sound(const struct rdzv_record *record)
{
    bool is =
        id_is_valid(record->job) && job_spec_is_sound(&record->spec) && record->run >= 1 &&
        record->run <= MSG_RUN_MAX && record->epoch <= MSG_NUMBER_MAX &&
        record->epoch_ps <= MSG_NODES_MAX && (record->epoch_ps > 0) <= (record->spec.n_ps > 0) &&
        (record->resized || record->n_members <= roster_most(&record->spec)) &&
        (record->over || record->gone || record->n_members > epoch_extra(record)) &&
        record->epoch >= record->predecessor && record->ttl_ms <= MSG_DURATION_MAX_MS &&
        record->fence_ms <= MSG_DURATION_MAX_MS && record->backoff_ms <= MSG_DURATION_MAX_MS &&
        (!record->run_key || !record->run_key[0] || id_is_valid(record->run_key)) &&
        (!record->sentence || strnlen(record->sentence, MSG_SENTENCE_MAX) < MSG_SENTENCE_MAX);
    for (uint32_t seat = 0; is && seat < record->n_members; seat++) {
        is = member_is_sound(&record->members[seat], record->spec.nproc);
    }
    return is;
}
