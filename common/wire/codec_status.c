/* common/wire/codec_status.c: ctl's query and its answers. */
#include "common/wire/codec_parts.h"

#define SAME_ROLE(NAME, number, name)                                                              \
    _Static_assert((int)TFE__NODE_ROLE__ROLE_##NAME == (number), "tfe.proto, msg.h");
TFE_ROLES(SAME_ROLE)

int codec_put_status(const struct msg_status *m, struct codec_out *out)
{
    Tfe__Status pb = TFE__STATUS__INIT;
    if (m->job) {
        pb.has_job = 1;
        pb.job = codec_bytes(m->job);
    }
    return codec_pack(out, &pb.base);
}

int codec_get_status(struct codec_in *in, struct msg_status *ret)
{
    Tfe__Status *pb;
    int rc = codec_unpack(in, &tfe__status__descriptor, &pb);
    if (rc) {
        return rc;
    }
    return codec_text_or(in, pb->has_job, &pb->job, CODEC_NAME, NULL, &ret->job);
}

int codec_put_status_job(const struct msg_status_job *m, struct codec_out *out)
{
    Tfe__StatusJob pb = TFE__STATUS_JOB__INIT;
    pb.job = codec_bytes(m->job);
    pb.state = codec_bytes(m->state);
    pb.run = m->run;
    pb.epoch = m->epoch;
    pb.min_nodes = m->min_nodes;
    pb.max_nodes = m->max_nodes;
    pb.nproc = m->nproc;
    pb.restarts = m->restarts;
    return codec_pack(out, &pb.base);
}

int codec_get_status_job(struct codec_in *in, struct msg_status_job *ret)
{
    Tfe__StatusJob *pb;
    int rc = codec_unpack(in, &tfe__status_job__descriptor, &pb);
    if (rc) {
        return rc;
    }
    *ret = (struct msg_status_job){
        .run = pb->run,
        .epoch = pb->epoch,
        .min_nodes = pb->min_nodes,
        .max_nodes = pb->max_nodes,
        .nproc = pb->nproc,
        .restarts = pb->restarts,
    };
    rc = codec_text(in, &pb->job, CODEC_NAME, &ret->job);
    return rc ? rc : codec_text(in, &pb->state, CODEC_NAME, &ret->state);
}

int codec_put_status_node(const struct msg_status_node *m, struct codec_out *out)
{
    Tfe__StatusNode pb = TFE__STATUS_NODE__INIT;
    Tfe__Processes processes;
    codec_fill_processes(&m->processes, &processes);
    pb.processes = &processes;
    pb.node = codec_bytes(m->node);
    pb.has_name = m->name[0] != '\0';
    pb.name = codec_bytes(m->name);
    pb.role = (Tfe__NodeRole)m->role;
    pb.has_rank = m->has_rank;
    pb.rank = m->rank;
    if (m->host) {
        pb.has_host = 1;
        pb.host = codec_bytes(m->host);
    }
    pb.has_port = m->port != 0;
    pb.port = m->port;
    pb.has_pid = m->pid != 0;
    pb.pid = m->pid;
    return codec_pack(out, &pb.base);
}

int codec_get_status_node(struct codec_in *in, struct msg_status_node *ret)
{
    Tfe__StatusNode *pb;
    int rc = codec_unpack(in, &tfe__status_node__descriptor, &pb);
    if (rc) {
        return rc;
    }
    if (pb->port > UINT16_MAX) {
        return TFE_EPROTO;
    }
    *ret = (struct msg_status_node){
        .role = (enum tfe_node_role)pb->role,
        .has_rank = pb->has_rank,
        .rank = pb->has_rank ? pb->rank : 0,
        .port = (uint16_t)pb->port,
        .pid = pb->pid,
    };
    if (pb->processes) {
        codec_take_processes(pb->processes, &ret->processes);
    }
    rc = codec_text(in, &pb->node, CODEC_NAME, &ret->node);
    if (rc == 0) {
        rc = codec_text_or(in, pb->has_name, &pb->name, CODEC_NAME, "", &ret->name);
    }
    return rc ? rc : codec_text_or(in, pb->has_host, &pb->host, CODEC_NAME, NULL, &ret->host);
}

int codec_put_status_end(const struct msg_status_end *m, struct codec_out *out)
{
    Tfe__StatusEnd pb = TFE__STATUS_END__INIT;
    pb.jobs = m->jobs;
    return codec_pack(out, &pb.base);
}

int codec_get_status_end(struct codec_in *in, struct msg_status_end *ret)
{
    Tfe__StatusEnd *pb;
    int rc = codec_unpack(in, &tfe__status_end__descriptor, &pb);
    if (rc == 0) {
        ret->jobs = pb->jobs;
    }
    return rc;
}
