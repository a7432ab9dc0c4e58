/* common/wire/codec_plan.c: what planned switches are made of: PROGRESS, NOTICE and SAVE. */
#include "common/wire/codec_parts.h"

#define SAME_NOTICE(NAME, number, name)                                                            \
    _Static_assert((int)TFE__NOTICE_KIND__NOTICE_##NAME == (number), "tfe.proto, msg.h");
TFE_NOTICES(SAME_NOTICE)

int codec_put_progress(const struct msg_progress *m, struct codec_out *out)
{
    Tfe__Progress pb = TFE__PROGRESS__INIT;
    pb.epoch = m->epoch;
    pb.has_step = m->has_step;
    pb.step = m->step;
    pb.has_saved_step = m->has_saved;
    pb.saved_step = m->saved_step;
    PUT_NONZERO(pb, m, saves);
    PUT_NONZERO(pb, m, answers);
    PUT_NONZERO(pb, m, listens);
    return codec_pack(out, &pb.base);
}

int codec_get_progress(struct codec_in *in, struct msg_progress *ret)
{
    Tfe__Progress *pb;
    int rc = codec_unpack(in, &tfe__progress__descriptor, &pb);
    if (rc == 0) {
        *ret = (struct msg_progress){
            .epoch = pb->epoch,
            .has_step = pb->has_step,
            .step = pb->has_step ? pb->step : 0,
            .has_saved = pb->has_saved_step,
            .saved_step = pb->has_saved_step ? pb->saved_step : 0,
            .saves = pb->saves,
            .answers = pb->answers,
            .listens = pb->listens,
        };
    }
    return rc;
}

int codec_put_notice(const struct msg_notice *m, struct codec_out *out)
{
    Tfe__Notice pb = TFE__NOTICE__INIT;
    pb.kind = (Tfe__NoticeKind)m->kind;
    PUT_WISH(pb, m, deadline_ms);
    PUT_NONZERO(pb, m, withdrawn);
    PUT_NONZERO(pb, m, uncertain);
    return codec_pack(out, &pb.base);
}

int codec_get_notice(struct codec_in *in, struct msg_notice *ret)
{
    Tfe__Notice *pb;
    int rc = codec_unpack(in, &tfe__notice__descriptor, &pb);
    if (rc == 0) {
        *ret = (struct msg_notice){
            .kind = (enum tfe_notice)pb->kind,
            .deadline_ms = GET_WISH(pb, deadline_ms),
            .withdrawn = pb->withdrawn,
            .uncertain = pb->uncertain,
        };
    }
    return rc;
}

int codec_put_save(const struct msg_save *m, struct codec_out *out)
{
    Tfe__Save pb = TFE__SAVE__INIT;
    pb.epoch = m->epoch;
    pb.number = m->number;
    PUT_WISH(pb, m, within_ms);
    return codec_pack(out, &pb.base);
}

int codec_get_save(struct codec_in *in, struct msg_save *ret)
{
    Tfe__Save *pb;
    int rc = codec_unpack(in, &tfe__save__descriptor, &pb);
    if (rc == 0) {
        *ret = (struct msg_save){
            .epoch = pb->epoch, .number = pb->number, .within_ms = GET_WISH(pb, within_ms)};
    }
    return rc;
}
