/* server/store/pack.h: serialises numbers and texts one after the other, and reads them
 * back. One function that visits the fields of a struct serves both directions. */
#ifndef TFE_SERVER_STORE_PACK_H
#define TFE_SERVER_STORE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"

/* State of serialisation. To write, start with a zeroed struct; the caller frees out with free(3).
 * To read, set in and n; texts read are borrowed from in. */
struct pack {
    const uint8_t *in; /* input; NULL when writing */
    size_t n;          /* size of in, or of out */
    size_t at;         /* bytes read so far */
    uint8_t *out;
    size_t cap;
    int rc; /* first error: TFE_ENOMEM, or TFE_EINVAL if the input is invalid; all values read after
               it are 0 or "" */
};

void pack_u64(struct pack *p, uint64_t *number);
void pack_u32(struct pack *p, uint32_t *number);
void pack_bool(struct pack *p, bool *flag);
void pack_wall(struct pack *p, struct tfe_wall *at);
/* Writes or reads a text; NULL is written as "". */
void pack_text(struct pack *p, const char **text);

#endif
