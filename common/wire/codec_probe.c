/* common/wire/codec_probe.c: PROBE and PROBED, and the ports that they share with READY. */
#include "common/wire/codec_parts.h"

#define SAME_KIND(NAME, number, name)                                                              \
    _Static_assert((int)TFE__PROBE_KIND__PROBE_KIND_##NAME == (number), "tfe.proto, msg.h");
#define SAME_RESULT(NAME, number, name)                                                            \
    _Static_assert((int)TFE__PROBE_RESULT__PROBE_RESULT_##NAME == (number), "tfe.proto, msg.h");
TFE_PROBE_KINDS(SAME_KIND)
TFE_PROBE_RESULTS(SAME_RESULT)

void codec_widen_ports(const uint16_t *ports, size_t n, uint32_t ret[MSG_NPROC_MAX])
{
    for (size_t i = 0; i < n; i++) {
        ret[i] = ports[i];
    }
}

int codec_take_ports(struct codec_in *in, const uint32_t *numbers, size_t n, const uint16_t **ret)
{
    if (n > MSG_NPROC_MAX) {
        return TFE_EPROTO;
    }
    uint16_t *ports;
    int rc = codec_array(in, n, sizeof(*ports), &ports);
    if (rc) {
        return rc;
    }
    for (size_t i = 0; i < n; i++) {
        if (numbers[i] > UINT16_MAX) {
            return TFE_EPROTO;
        }
        ports[i] = (uint16_t)numbers[i];
    }
    *ret = ports;
    return 0;
}

int codec_put_probe(const struct msg_probe *m, struct codec_out *out)
{
    Tfe__Probe pb = TFE__PROBE__INIT;
    uint32_t ports[MSG_NPROC_MAX];
    codec_widen_ports(m->ports, m->n_ports, ports);
    pb.probe = m->probe;
    pb.kind = (Tfe__ProbeKind)m->kind;
    pb.node = codec_bytes(m->node);
    pb.host = codec_bytes(m->host);
    pb.ports = ports;
    pb.n_ports = m->n_ports;
    return codec_pack(out, &pb.base);
}

int codec_get_probe(struct codec_in *in, struct msg_probe *ret)
{
    Tfe__Probe *pb;
    int rc = codec_unpack(in, &tfe__probe__descriptor, &pb);
    if (rc) {
        return rc;
    }
    *ret = (struct msg_probe){
        .probe = pb->probe, .kind = (enum tfe_probe_kind)pb->kind, .n_ports = pb->n_ports};
    rc = codec_text(in, &pb->node, CODEC_NAME, &ret->node);
    if (rc == 0) {
        rc = codec_text(in, &pb->host, CODEC_NAME, &ret->host);
    }
    return rc ? rc : codec_take_ports(in, pb->ports, pb->n_ports, &ret->ports);
}

int codec_put_probed(const struct msg_probed *m, struct codec_out *out)
{
    Tfe__Probed pb = TFE__PROBED__INIT;
    pb.probe = m->probe;
    pb.result = (Tfe__ProbeResult)m->result;
    return codec_pack(out, &pb.base);
}

int codec_get_probed(struct codec_in *in, struct msg_probed *ret)
{
    Tfe__Probed *pb;
    int rc = codec_unpack(in, &tfe__probed__descriptor, &pb);
    if (rc == 0) {
        *ret = (struct msg_probed){.probe = pb->probe, .result = (enum tfe_probe_result)pb->result};
    }
    return rc;
}
