/* common/message/codec_validate.c: consistency checks between the fields of a message. */
#include "common/message/codec_fields.h"

static bool is_valid_join(const struct msg_join *m)
{
    const struct msg_exited *exited = m->exited;
    const struct msg_running *running = m->running;
    return m->spec.min_nodes <= m->spec.max_nodes &&
           (!exited || exited->signal == 0 || exited->code == 0) &&
           (!running || ((m->running_epoch >= 1 || exited) && running->rank < running->world &&
                         running->nodes <= running->world && running->n_ports == m->spec.nproc));
}

static bool is_valid_table(const struct msg_table *m)
{
    size_t i = 0;
    while (i < m->n_rows && m->rows[i].rank < m->world) {
        i++;
    }
    return i == m->n_rows;
}

/* A chunk has either bytes within the bundle or an error text. */
static bool is_valid_chunk(const struct msg_chunk *m)
{
    if (m->n_data == 0) {
        return *m->message != '\0';
    }
    return *m->message == '\0' && m->offset <= m->total && m->n_data <= m->total - m->offset;
}

bool codec_is_valid(const struct tfe_msg *msg)
{
    const struct msg_start *start = &msg->u.start;
    switch ((int)msg->type) {
    case MSG_JOIN:
        return is_valid_join(&msg->u.join);
    case MSG_EXITED:
        return msg->u.exited.signal == 0 || msg->u.exited.code == 0;
    case MSG_TABLE:
        return is_valid_table(&msg->u.table);
    case MSG_START:
        return (start->evaluates ? start->rank == start->world : start->rank < start->world) &&
               start->nodes <= start->world;
    case MSG_CHUNK:
        return is_valid_chunk(&msg->u.chunk);
    case MSG_BUNDLE_WANT:
        return msg->u.bundle_want.offset < msg->u.bundle_want.until;
    case MSG_SCALE:
        return msg->u.scale.min_nodes <= msg->u.scale.max_nodes;
    case MSG_STATUS_JOB:
        return msg->u.status_job.min_nodes <= msg->u.status_job.max_nodes;
    }
    return true;
}
