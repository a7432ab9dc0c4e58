/* common/wire/codec_operator.c: an operator's orders and their answer. */
#include "common/wire/codec_parts.h"

int codec_put_drain(const struct msg_drain *m, struct codec_out *out)
{
    Tfe__Drain pb = TFE__DRAIN__INIT;
    pb.node = codec_bytes(m->node);
    PUT_WISH(pb, m, within_ms);
    return codec_pack(out, &pb.base);
}

int codec_get_drain(struct codec_in *in, struct msg_drain *ret)
{
    Tfe__Drain *pb;
    int rc = codec_unpack(in, &tfe__drain__descriptor, &pb);
    if (rc) {
        return rc;
    }
    *ret = (struct msg_drain){.within_ms = GET_WISH(pb, within_ms)};
    return codec_text(in, &pb->node, CODEC_NAME, &ret->node);
}

int codec_put_evict(const struct msg_evict *m, struct codec_out *out)
{
    Tfe__Evict pb = TFE__EVICT__INIT;
    pb.node = codec_bytes(m->node);
    return codec_pack(out, &pb.base);
}

int codec_get_evict(struct codec_in *in, struct msg_evict *ret)
{
    Tfe__Evict *pb;
    int rc = codec_unpack(in, &tfe__evict__descriptor, &pb);
    return rc ? rc : codec_text(in, &pb->node, CODEC_NAME, &ret->node);
}

int codec_put_stop_job(const struct msg_stop_job *m, struct codec_out *out)
{
    Tfe__StopJob pb = TFE__STOP_JOB__INIT;
    pb.job = codec_bytes(m->job);
    return codec_pack(out, &pb.base);
}

int codec_get_stop_job(struct codec_in *in, struct msg_stop_job *ret)
{
    Tfe__StopJob *pb;
    int rc = codec_unpack(in, &tfe__stop_job__descriptor, &pb);
    return rc ? rc : codec_text(in, &pb->job, CODEC_NAME, &ret->job);
}

int codec_put_done(const struct msg_done *m, struct codec_out *out)
{
    (void)m;
    Tfe__Done pb = TFE__DONE__INIT;
    return codec_pack(out, &pb.base);
}

int codec_get_done(struct codec_in *in, struct msg_done *ret)
{
    (void)ret;
    Tfe__Done *pb;
    return codec_unpack(in, &tfe__done__descriptor, &pb);
}

int codec_put_backup(const struct msg_backup *m, struct codec_out *out)
{
    Tfe__Backup pb = TFE__BACKUP__INIT;
    pb.path = codec_bytes(m->path);
    return codec_pack(out, &pb.base);
}

int codec_get_backup(struct codec_in *in, struct msg_backup *ret)
{
    Tfe__Backup *pb;
    int rc = codec_unpack(in, &tfe__backup__descriptor, &pb);
    return rc ? rc : codec_text(in, &pb->path, CODEC_NAME, &ret->path);
}
