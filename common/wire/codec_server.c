/* common/wire/codec_server.c: the server's messages to an agent, but for TABLE. */
#include "common/wire/codec_parts.h"

/* The numbers of msg.h travel as they are. */
#define SAME_CAUSE(NAME, number, name)                                                             \
    _Static_assert((int)TFE__CAUSE__CAUSE_##NAME == (number), "tfe.proto, msg.h");
#define SAME_RESULT(NAME, number, name)                                                            \
    _Static_assert((int)TFE__RESULT__RESULT_##NAME == (number), "tfe.proto, msg.h");
#define SAME_REFUSAL(NAME, number, name)                                                           \
    _Static_assert((int)TFE__REFUSAL__REFUSAL_##NAME == (number), "tfe.proto, msg.h");
TFE_CAUSES(SAME_CAUSE)
TFE_RESULTS(SAME_RESULT)
TFE_REFUSALS(SAME_REFUSAL)

/* --- WELCOME, RENEWED ------------------------------------------------------------------------- */

int codec_put_welcome(const struct msg_welcome *m, struct codec_out *out)
{
    Tfe__Welcome pb = TFE__WELCOME__INIT;
    pb.node = codec_bytes(m->node);
    pb.incarnation = m->incarnation;
    pb.run = m->run;
    pb.ttl_ms = m->ttl_ms;
    pb.fence_ms = m->fence_ms;
    pb.renew_ms = m->renew_ms;
    pb.spread_ms = m->spread_ms;
    pb.stop_grace_ms = m->stop_grace_ms;
    return codec_pack(out, &pb.base);
}

int codec_get_welcome(struct codec_in *in, struct msg_welcome *ret)
{
    Tfe__Welcome *pb;
    int rc = codec_unpack(in, &tfe__welcome__descriptor, &pb);
    if (rc) {
        return rc;
    }
    *ret = (struct msg_welcome){
        .incarnation = pb->incarnation,
        .run = pb->run,
        .ttl_ms = pb->ttl_ms,
        .fence_ms = pb->fence_ms,
        .renew_ms = pb->renew_ms,
        .spread_ms = pb->spread_ms,
        .stop_grace_ms = pb->stop_grace_ms,
    };
    return codec_text(in, &pb->node, CODEC_NAME, &ret->node);
}

int codec_put_renewed(const struct msg_renewed *m, struct codec_out *out)
{
    Tfe__Renewed pb = TFE__RENEWED__INIT;
    pb.number = m->number;
    pb.ttl_ms = m->ttl_ms;
    pb.fence_ms = m->fence_ms;
    PUT_NONZERO(pb, m, spread_ms);
    return codec_pack(out, &pb.base);
}

int codec_get_renewed(struct codec_in *in, struct msg_renewed *ret)
{
    Tfe__Renewed *pb;
    int rc = codec_unpack(in, &tfe__renewed__descriptor, &pb);
    if (rc == 0) {
        *ret = (struct msg_renewed){.number = pb->number,
                                    .ttl_ms = pb->ttl_ms,
                                    .fence_ms = pb->fence_ms,
                                    .spread_ms = pb->spread_ms};
    }
    return rc;
}

/* --- PREPARE, STOP, START --------------------------------------------------------------------- */

int codec_put_prepare(const struct msg_prepare *m, struct codec_out *out)
{
    Tfe__Prepare pb = TFE__PREPARE__INIT;
    pb.epoch = m->epoch;
    pb.has_fresh_ports = m->fresh_ports;
    pb.fresh_ports = m->fresh_ports;
    pb.has_answer = m->answer;
    pb.answer = m->answer;
    return codec_pack(out, &pb.base);
}

int codec_get_prepare(struct codec_in *in, struct msg_prepare *ret)
{
    Tfe__Prepare *pb;
    int rc = codec_unpack(in, &tfe__prepare__descriptor, &pb);
    if (rc == 0) {
        *ret = (struct msg_prepare){
            .epoch = pb->epoch, .fresh_ports = pb->fresh_ports, .answer = pb->answer};
    }
    return rc;
}

int codec_put_stop(const struct msg_stop *m, struct codec_out *out)
{
    Tfe__Stop pb = TFE__STOP__INIT;
    pb.epoch = m->epoch;
    PUT_NONZERO(pb, m, planned);
    return codec_pack(out, &pb.base);
}

int codec_get_stop(struct codec_in *in, struct msg_stop *ret)
{
    Tfe__Stop *pb;
    int rc = codec_unpack(in, &tfe__stop__descriptor, &pb);
    if (rc == 0) {
        *ret = (struct msg_stop){.epoch = pb->epoch, .planned = pb->planned};
    }
    return rc;
}

int codec_put_start(const struct msg_start *m, struct codec_out *out)
{
    Tfe__Start pb = TFE__START__INIT;
    pb.epoch = m->epoch;
    pb.run = m->run;
    pb.rank = m->rank;
    pb.world = m->world;
    pb.nodes = m->nodes;
    pb.cause = (Tfe__Cause)m->cause;
    pb.table_digest = m->table_digest;
    PUT_NONZERO(pb, m, fence_ms);
    return codec_pack(out, &pb.base);
}

int codec_get_start(struct codec_in *in, struct msg_start *ret)
{
    Tfe__Start *pb;
    int rc = codec_unpack(in, &tfe__start__descriptor, &pb);
    if (rc == 0) {
        *ret = (struct msg_start){
            .epoch = pb->epoch,
            .run = pb->run,
            .rank = pb->rank,
            .world = pb->world,
            .nodes = pb->nodes,
            .cause = (enum tfe_cause)pb->cause,
            .table_digest = pb->table_digest,
            .fence_ms = pb->fence_ms,
        };
    }
    return rc;
}

/* --- NOTED, LEASE_ENDED, FINISH, REFUSED ------------------------------------------------------ */

int codec_put_noted(const struct msg_noted *m, struct codec_out *out)
{
    Tfe__Noted pb = TFE__NOTED__INIT;
    pb.epoch = m->epoch;
    return codec_pack(out, &pb.base);
}

int codec_get_noted(struct codec_in *in, struct msg_noted *ret)
{
    Tfe__Noted *pb;
    int rc = codec_unpack(in, &tfe__noted__descriptor, &pb);
    if (rc == 0) {
        ret->epoch = pb->epoch;
    }
    return rc;
}

int codec_put_lease_ended(const struct msg_lease_ended *m, struct codec_out *out)
{
    Tfe__LeaseEnded pb = TFE__LEASE_ENDED__INIT;
    pb.epoch = m->epoch;
    return codec_pack(out, &pb.base);
}

int codec_get_lease_ended(struct codec_in *in, struct msg_lease_ended *ret)
{
    Tfe__LeaseEnded *pb;
    int rc = codec_unpack(in, &tfe__lease_ended__descriptor, &pb);
    if (rc == 0) {
        ret->epoch = pb->epoch;
    }
    return rc;
}

int codec_put_finish(const struct msg_finish *m, struct codec_out *out)
{
    Tfe__Finish pb = TFE__FINISH__INIT;
    pb.result = (Tfe__Result)m->result;
    pb.run = m->run;
    pb.sentence = codec_bytes(m->sentence);
    return codec_pack(out, &pb.base);
}

int codec_get_finish(struct codec_in *in, struct msg_finish *ret)
{
    Tfe__Finish *pb;
    int rc = codec_unpack(in, &tfe__finish__descriptor, &pb);
    if (rc) {
        return rc;
    }
    *ret = (struct msg_finish){.result = (enum tfe_result)pb->result, .run = pb->run};
    return codec_text(in, &pb->sentence, CODEC_PROSE, &ret->sentence);
}

int codec_put_refused(const struct msg_refused *m, struct codec_out *out)
{
    Tfe__Refused pb = TFE__REFUSED__INIT;
    pb.code = (Tfe__Refusal)m->code;
    pb.sentence = codec_bytes(m->sentence);
    return codec_pack(out, &pb.base);
}

int codec_get_refused(struct codec_in *in, struct msg_refused *ret)
{
    Tfe__Refused *pb;
    int rc = codec_unpack(in, &tfe__refused__descriptor, &pb);
    if (rc) {
        return rc;
    }
    *ret = (struct msg_refused){.code = (enum tfe_refusal)pb->code};
    return codec_text(in, &pb->sentence, CODEC_PROSE, &ret->sentence);
}
