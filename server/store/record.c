/* server/store/record.c: see record.h. */
#include "server/store/record.h"

#include <stdlib.h>
#include <string.h>

static size_t text_size(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *keep(char **at, const char *text)
{
    if (!text) {
        return NULL;
    }
    size_t n = strlen(text) + 1;
    char *kept = memcpy(*at, text, n);
    *at += n;
    return kept;
}

struct rdzv_record *record_copy(const struct rdzv_record *r)
{
    size_t members = r->n_members * sizeof(struct rdzv_member);
    size_t known_to = 0;
    size_t ports = (size_t)r->n_members * r->spec.nproc * sizeof(uint16_t);
    size_t text =
        text_size(r->job) + text_size(r->run_key) + text_size(r->sentence) + text_size(r->past);
    for (uint32_t i = 0; i < r->n_members; i++) {
        text += text_size(r->members[i].node) + text_size(r->members[i].name) +
                text_size(r->members[i].host) + text_size(r->members[i].death_hash);
        known_to += r->members[i].n_known_to * sizeof(struct tfe_id);
    }
    struct rdzv_record *copy = malloc(sizeof(*copy) + members + ports + known_to + text);
    if (!copy) {
        return NULL;
    }
    struct rdzv_member *to = (void *)(copy + 1);
    uint16_t *port = (void *)((char *)to + members);
    struct tfe_id *known = (void *)((char *)port + ports);
    char *at = (char *)known + known_to;
    *copy = *r;
    copy->job = keep(&at, r->job);
    copy->run_key = keep(&at, r->run_key);
    copy->sentence = keep(&at, r->sentence);
    copy->past = keep(&at, r->past);
    copy->members = to;
    for (uint32_t i = 0; i < r->n_members; i++) {
        to[i] = r->members[i];
        to[i].node = keep(&at, r->members[i].node);
        to[i].name = keep(&at, r->members[i].name);
        to[i].host = keep(&at, r->members[i].host);
        to[i].death_hash = keep(&at, r->members[i].death_hash);
        memcpy(port, r->members[i].ports, r->spec.nproc * sizeof(*port));
        to[i].ports = port;
        port += r->spec.nproc;
        for (uint32_t k = 0; k < r->members[i].n_known_to; k++) {
            known[k] = r->members[i].known_to[k];
        }
        to[i].known_to = known;
        known += r->members[i].n_known_to;
    }
    return copy;
}
