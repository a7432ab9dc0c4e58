/* common/wire/codec_ledger.c: ctl's question for a job's ledger, and its rows. */
#include "common/wire/codec_parts.h"

int codec_put_epochs(const struct msg_epochs *m, struct codec_out *out)
{
    Tfe__Epochs pb = TFE__EPOCHS__INIT;
    pb.job = codec_bytes(m->job);
    return codec_pack(out, &pb.base);
}

int codec_get_epochs(struct codec_in *in, struct msg_epochs *ret)
{
    Tfe__Epochs *pb;
    int rc = codec_unpack(in, &tfe__epochs__descriptor, &pb);
    return rc ? rc : codec_text(in, &pb->job, CODEC_NAME, &ret->job);
}

int codec_put_epoch_row(const struct msg_epoch_row *m, struct codec_out *out)
{
    Tfe__EpochRow pb = TFE__EPOCH_ROW__INIT;
    pb.run = m->run;
    pb.epoch = m->epoch;
    pb.cause = (Tfe__Cause)m->cause;
    pb.has_blamed = m->blamed[0] != '\0';
    pb.blamed = codec_bytes(m->blamed);
    PUT_NONZERO(pb, m, planned);
    pb.members = m->members;
#define PUT_TIME(NAME, name)                                                                       \
    pb.has_##name##_ms = m->at[EPOCH_##NAME].ms != 0;                                              \
    pb.name##_ms = (uint64_t)m->at[EPOCH_##NAME].ms;
    TFE_EPOCH_TIMES(PUT_TIME)
#undef PUT_TIME
    pb.has_saved_step = m->has_saved;
    pb.saved_step = m->saved_step;
    pb.has_lost_steps = m->has_lost;
    pb.lost_steps = m->lost_steps;
    PUT_NONZERO(pb, m, over);
    return codec_pack(out, &pb.base);
}

int codec_get_epoch_row(struct codec_in *in, struct msg_epoch_row *ret)
{
    Tfe__EpochRow *pb;
    int rc = codec_unpack(in, &tfe__epoch_row__descriptor, &pb);
    if (rc) {
        return rc;
    }
    *ret = (struct msg_epoch_row){
        .run = pb->run,
        .epoch = pb->epoch,
        .cause = (enum tfe_cause)pb->cause,
        .planned = pb->planned,
        .members = pb->members,
        .has_saved = pb->has_saved_step,
        .saved_step = pb->has_saved_step ? pb->saved_step : 0,
        .has_lost = pb->has_lost_steps,
        .lost_steps = pb->has_lost_steps ? pb->lost_steps : 0,
        .over = pb->over,
    };
#define GET_TIME(NAME, name)                                                                       \
    if (pb->name##_ms > INT64_MAX) {                                                               \
        return TFE_EPROTO;                                                                         \
    }                                                                                              \
    ret->at[EPOCH_##NAME].ms = (int64_t)pb->name##_ms;
    TFE_EPOCH_TIMES(GET_TIME)
#undef GET_TIME
    return codec_text_or(in, pb->has_blamed, &pb->blamed, CODEC_NAME, "", &ret->blamed);
}
