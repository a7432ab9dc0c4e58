/* common/wire/codec_table.c: TABLE, the one message that is cut to fit. */
#include "common/wire/codec.h"
#include "common/wire/codec_parts.h"

/* Field number of Table.rows, and wire type 2: a length and so many bytes. */
#define ROWS_FIELD 4
#define ROWS_TAG (ROWS_FIELD << 3 | 2)
/* A row's length is below 2^14: host, two numbers, their tags. */
#define ROW_LENGTH_MAX_BYTES 2

/* Appends one element of Table.rows. Packed by hand: protobuf-c would want an array of pointers to
 * rows beside them, 36 KiB for a full chunk. A message appended to a message is protobuf's
 * concatenation. */
static int put_row(const struct msg_row *row, struct codec_out *out)
{
    Tfe__Row pb = TFE__ROW__INIT;
    pb.rank = row->rank;
    pb.host = codec_bytes(row->host);
    pb.port = row->port;
    size_t n = protobuf_c_message_get_packed_size(&pb.base);
    size_t length_n = n < 0x80 ? 1 : ROW_LENGTH_MAX_BYTES;
    if (out->left < 1 + length_n + n) {
        return TFE_ETOOBIG;
    }
    *out->at++ = ROWS_TAG;
    if (length_n == 1) {
        *out->at++ = (uint8_t)n;
    } else {
        *out->at++ = (uint8_t)(n & 0x7f) | 0x80;
        *out->at++ = (uint8_t)(n >> 7);
    }
    out->left -= 1 + length_n;
    return codec_pack(out, &pb.base);
}

static int put_head(const struct msg_table *m, struct codec_out *out)
{
    Tfe__Table pb = TFE__TABLE__INIT;
    pb.epoch = m->epoch;
    pb.world = m->world;
    pb.has_base_digest = m->base_digest != 0;
    pb.base_digest = m->base_digest;
    pb.has_turned = m->turned;
    pb.turned = m->turned;
    return codec_pack(out, &pb.base);
}

int codec_put_table(const struct msg_table *m, struct codec_out *out)
{
    int rc = put_head(m, out);
    for (size_t i = 0; rc == 0 && i < m->n_rows; i++) {
        rc = put_row(&m->rows[i], out);
    }
    return rc;
}

int codec_encode_table_chunk(const struct msg_table *whole, size_t first, uint8_t *out,
                             size_t out_cap, size_t *ret_n, size_t *ret_rows)
{
    if (first > whole->n_rows || !codec_check_table_head(whole)) {
        return TFE_EINVAL;
    }
    if (out_cap < 1) {
        return TFE_ETOOBIG;
    }
    struct codec_out to = {.at = out, .left = out_cap};
    *to.at++ = MSG_TABLE;
    to.left--;
    int rc = put_head(whole, &to);
    if (rc) {
        return rc;
    }
    size_t rows = 0;
    while (rows < MSG_ROWS_PER_CHUNK && first + rows < whole->n_rows) {
        const struct msg_row *row = &whole->rows[first + rows];
        if (!codec_check_row(row, whole->world)) {
            return TFE_EINVAL;
        }
        if (put_row(row, &to) != 0) {
            break;
        }
        rows++;
    }
    if (rows == 0 && first < whole->n_rows) {
        return TFE_ETOOBIG;
    }
    *ret_rows = rows;
    *ret_n = out_cap - to.left;
    return 0;
}

int codec_get_table(struct codec_in *in, struct msg_table *ret)
{
    Tfe__Table *pb;
    int rc = codec_unpack(in, &tfe__table__descriptor, &pb);
    if (rc) {
        return rc;
    }
    if (pb->n_rows > MSG_ROWS_PER_CHUNK) {
        return TFE_EPROTO;
    }
    struct msg_row *rows;
    rc = codec_array(in, pb->n_rows, sizeof(*rows), &rows);
    for (size_t i = 0; rc == 0 && i < pb->n_rows; i++) {
        const Tfe__Row *row = pb->rows[i];
        if (row->port > UINT16_MAX) {
            return TFE_EPROTO;
        }
        rows[i] = (struct msg_row){.rank = row->rank, .port = (uint16_t)row->port};
        rc = codec_text(in, &row->host, CODEC_NAME, &rows[i].host);
    }
    if (rc) {
        return rc;
    }
    *ret = (struct msg_table){
        .epoch = pb->epoch,
        .world = pb->world,
        .base_digest = pb->base_digest,
        .turned = pb->turned,
        .rows = rows,
        .n_rows = pb->n_rows,
    };
    return 0;
}
