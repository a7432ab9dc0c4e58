/* common/wire/codec_agent.c: the messages of an agent. */
#include "common/wire/codec_parts.h"

/* --- EXITED ----------------------------------------------------------------------------------- */

void codec_fill_exited(const struct msg_exited *m, Tfe__Exited *pb)
{
    *pb = (Tfe__Exited)TFE__EXITED__INIT;
    pb->epoch = m->epoch;
    PUT_NONZERO(*pb, m, local_rank);
    PUT_NONZERO(*pb, m, code);
    PUT_NONZERO(*pb, m, signal);
    pb->has_stopped = m->stopped;
    pb->stopped = m->stopped;
    pb->has_tail = m->tail[0] != '\0';
    pb->tail = codec_bytes(m->tail);
    pb->has_end = m->end != ENDING_EXITED;
    pb->end = (Tfe__Ending)m->end;
}

int codec_take_exited(struct codec_in *in, const Tfe__Exited *pb, struct msg_exited *ret)
{
    *ret = (struct msg_exited){
        .epoch = pb->epoch,
        .local_rank = pb->local_rank,
        .code = pb->code,
        .signal = pb->signal,
        .stopped = pb->stopped,
        .end = (enum tfe_ending)pb->end,
    };
    return codec_text_or(in, pb->has_tail, &pb->tail, CODEC_PROSE, "", &ret->tail);
}

int codec_put_exited(const struct msg_exited *m, struct codec_out *out)
{
    Tfe__Exited pb;
    codec_fill_exited(m, &pb);
    return codec_pack(out, &pb.base);
}

int codec_get_exited(struct codec_in *in, struct msg_exited *ret)
{
    Tfe__Exited *pb;
    int rc = codec_unpack(in, &tfe__exited__descriptor, &pb);
    return rc ? rc : codec_take_exited(in, pb, ret);
}

/* --- JOIN ------------------------------------------------------------------------------------- */

/* RUNNING inside JOIN. pb borrows from m and from ports, which has room for MSG_NPROC_MAX. */
static void fill_running(const struct msg_running *m, Tfe__Running *pb, uint32_t *ports)
{
    *pb = (Tfe__Running)TFE__RUNNING__INIT;
    codec_widen_ports(m->ports, m->n_ports, ports);
    pb->run = m->run;
    pb->rank = m->rank;
    pb->nodes = m->nodes;
    pb->world = m->world;
    pb->digest = m->digest;
    pb->host = codec_bytes(m->host);
    pb->ports = ports;
    pb->n_ports = m->n_ports;
    pb->cause = (Tfe__Cause)m->cause;
}

int codec_put_join(const struct msg_join *m, struct codec_out *out)
{
    Tfe__Join pb = TFE__JOIN__INIT;
    Tfe__Exited exited;
    Tfe__Running running;
    uint32_t ports[MSG_NPROC_MAX];
    pb.job = codec_bytes(m->job);
    pb.node = codec_bytes(m->node);
    pb.has_node_name = m->node_name[0] != '\0';
    pb.node_name = codec_bytes(m->node_name);
    pb.min_nodes = m->min_nodes;
    pb.max_nodes = m->max_nodes;
    pb.nproc = m->nproc;
    PUT_WISH(pb, m, max_restarts);
    PUT_WISH(pb, m, gather_ms);
    PUT_WISH(pb, m, grow_wait_ms);
    PUT_WISH(pb, m, stop_grace_ms);
    PUT_WISH(pb, m, elastic_timeout_ms);
    pb.has_new_run = m->new_run;
    pb.new_run = m->new_run;
    PUT_NONZERO(pb, m, highest_epoch);
    PUT_NONZERO(pb, m, running_epoch);
    PUT_NONZERO(pb, m, script_digest);
    PUT_NONZERO(pb, m, pid);
    if (m->exited) {
        codec_fill_exited(m->exited, &exited);
        pb.exited = &exited;
    }
    pb.has_durable = m->durable;
    pb.durable = m->durable;
    pb.has_run_key = m->run_key != NULL;
    pb.run_key = codec_bytes(m->run_key ? m->run_key : "");
    pb.has_no_grow = m->no_grow;
    pb.no_grow = m->no_grow;
    PUT_WISH(pb, m, chief_grace_ms);
    if (m->running) {
        fill_running(m->running, &running, ports);
        pb.running = &running;
    }
    return codec_pack(out, &pb.base);
}

/* EXITED inside JOIN. */
static int take_last_exited(struct codec_in *in, const Tfe__Exited *pb,
                            const struct msg_exited **ret)
{
    *ret = NULL;
    if (!pb) {
        return 0;
    }
    struct msg_exited *exited;
    int rc = codec_array(in, 1, sizeof(*exited), &exited);
    if (rc == 0) {
        rc = codec_take_exited(in, pb, exited);
    }
    if (rc == 0) {
        *ret = exited;
    }
    return rc;
}

static int take_running(struct codec_in *in, const Tfe__Running *pb, const struct msg_running **ret)
{
    *ret = NULL;
    if (!pb) {
        return 0;
    }
    struct msg_running *running;
    int rc = codec_array(in, 1, sizeof(*running), &running);
    if (rc) {
        return rc;
    }
    *running = (struct msg_running){
        .run = pb->run,
        .rank = pb->rank,
        .nodes = pb->nodes,
        .world = pb->world,
        .digest = pb->digest,
        .n_ports = pb->n_ports,
        .cause = (enum tfe_cause)pb->cause,
    };
    rc = codec_take_ports(in, pb->ports, pb->n_ports, &running->ports);
    if (rc == 0) {
        rc = codec_text(in, &pb->host, CODEC_NAME, &running->host);
    }
    if (rc == 0) {
        *ret = running;
    }
    return rc;
}

int codec_get_join(struct codec_in *in, struct msg_join *ret)
{
    Tfe__Join *pb;
    int rc = codec_unpack(in, &tfe__join__descriptor, &pb);
    if (rc) {
        return rc;
    }
    *ret = (struct msg_join){
        .min_nodes = pb->min_nodes,
        .max_nodes = pb->max_nodes,
        .nproc = pb->nproc,
        .max_restarts = GET_WISH(pb, max_restarts),
        .gather_ms = GET_WISH(pb, gather_ms),
        .grow_wait_ms = GET_WISH(pb, grow_wait_ms),
        .stop_grace_ms = GET_WISH(pb, stop_grace_ms),
        .elastic_timeout_ms = GET_WISH(pb, elastic_timeout_ms),
        .new_run = pb->new_run,
        .highest_epoch = pb->highest_epoch,
        .running_epoch = pb->running_epoch,
        .script_digest = pb->script_digest,
        .pid = pb->pid,
        .durable = pb->durable,
        .no_grow = pb->no_grow,
        .chief_grace_ms = GET_WISH(pb, chief_grace_ms),
    };
    rc = codec_text(in, &pb->job, CODEC_NAME, &ret->job);
    if (rc == 0) {
        rc = codec_text(in, &pb->node, CODEC_NAME, &ret->node);
    }
    if (rc == 0) {
        rc = codec_text_or(in, pb->has_node_name, &pb->node_name, CODEC_NAME, "", &ret->node_name);
    }
    if (rc == 0) {
        rc = codec_text_or(in, pb->has_run_key, &pb->run_key, CODEC_NAME, NULL, &ret->run_key);
    }
    if (rc == 0) {
        rc = take_last_exited(in, pb->exited, &ret->exited);
    }
    return rc ? rc : take_running(in, pb->running, &ret->running);
}

/* --- RENEW ------------------------------------------------------------------------------------ */

int codec_put_renew(const struct msg_renew *m, struct codec_out *out)
{
    Tfe__Renew pb = TFE__RENEW__INIT;
    pb.number = m->number;
    return codec_pack(out, &pb.base);
}

int codec_get_renew(struct codec_in *in, struct msg_renew *ret)
{
    Tfe__Renew *pb;
    int rc = codec_unpack(in, &tfe__renew__descriptor, &pb);
    if (rc == 0) {
        ret->number = pb->number;
    }
    return rc;
}

/* --- READY ------------------------------------------------------------------------------------ */

int codec_put_ready(const struct msg_ready *m, struct codec_out *out)
{
    Tfe__Ready pb = TFE__READY__INIT;
    uint32_t ports[MSG_NPROC_MAX];
    codec_widen_ports(m->ports, m->n_ports, ports);
    pb.epoch = m->epoch;
    pb.host = codec_bytes(m->host);
    pb.ports = ports;
    pb.n_ports = m->n_ports;
    PUT_NONZERO(pb, m, table_digest);
    pb.has_answering = m->answering;
    pb.answering = m->answering;
    return codec_pack(out, &pb.base);
}

int codec_get_ready(struct codec_in *in, struct msg_ready *ret)
{
    Tfe__Ready *pb;
    int rc = codec_unpack(in, &tfe__ready__descriptor, &pb);
    if (rc) {
        return rc;
    }
    *ret = (struct msg_ready){
        .epoch = pb->epoch,
        .n_ports = pb->n_ports,
        .table_digest = pb->table_digest,
        .answering = pb->answering,
    };
    rc = codec_take_ports(in, pb->ports, pb->n_ports, &ret->ports);
    return rc ? rc : codec_text(in, &pb->host, CODEC_NAME, &ret->host);
}

/* --- LISTENING, GOODBYE ----------------------------------------------------------------------- */

int codec_put_listening(const struct msg_listening *m, struct codec_out *out)
{
    Tfe__Listening pb = TFE__LISTENING__INIT;
    pb.epoch = m->epoch;
    return codec_pack(out, &pb.base);
}

int codec_get_listening(struct codec_in *in, struct msg_listening *ret)
{
    Tfe__Listening *pb;
    int rc = codec_unpack(in, &tfe__listening__descriptor, &pb);
    if (rc == 0) {
        ret->epoch = pb->epoch;
    }
    return rc;
}

int codec_put_goodbye(const struct msg_goodbye *m, struct codec_out *out)
{
    Tfe__Goodbye pb = TFE__GOODBYE__INIT;
    pb.drained = m->drained;
    return codec_pack(out, &pb.base);
}

int codec_get_goodbye(struct codec_in *in, struct msg_goodbye *ret)
{
    Tfe__Goodbye *pb;
    int rc = codec_unpack(in, &tfe__goodbye__descriptor, &pb);
    if (rc == 0) {
        ret->drained = pb->drained;
    }
    return rc;
}

/* --- PROCESSES -------------------------------------------------------------------------------- */

void codec_fill_processes(const struct msg_processes *m, Tfe__Processes *pb)
{
    *pb = (Tfe__Processes)TFE__PROCESSES__INIT;
    PUT_NONZERO(*pb, m, guard_pid);
    pb->trainer_pids = codec_numbers(m->trainer_pids);
    pb->n_trainer_pids = m->n_trainer_pids;
    pb->standby_pids = codec_numbers(m->standby_pids);
    pb->n_standby_pids = m->n_standby_pids;
}

/* The lists stay where protobuf-c put them: in the arena. */
void codec_take_processes(const Tfe__Processes *pb, struct msg_processes *ret)
{
    *ret = (struct msg_processes){
        .guard_pid = pb->guard_pid,
        .trainer_pids = pb->trainer_pids,
        .n_trainer_pids = pb->n_trainer_pids,
        .standby_pids = pb->standby_pids,
        .n_standby_pids = pb->n_standby_pids,
    };
}

int codec_put_processes(const struct msg_processes *m, struct codec_out *out)
{
    Tfe__Processes pb;
    codec_fill_processes(m, &pb);
    return codec_pack(out, &pb.base);
}

int codec_get_processes(struct codec_in *in, struct msg_processes *ret)
{
    Tfe__Processes *pb;
    int rc = codec_unpack(in, &tfe__processes__descriptor, &pb);
    if (rc == 0) {
        codec_take_processes(pb, ret);
    }
    return rc;
}
