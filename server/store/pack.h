/* server/store/pack.h: numbers, texts and bytes packed one after the other, and unpacked again. One
 * function that visits the fields of a struct serves both directions. */
#ifndef TFE_SERVER_STORE_PACK_H
#define TFE_SERVER_STORE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"

/* Writing starts from a zeroed struct, and out is the caller's to free(3). Reading starts from `in`
 * and n; texts and bytes that are read are borrowed from `in`. */
struct pack {
    const uint8_t *in; /* NULL: it writes */
    size_t n;          /* bytes of in, or of out */
    size_t at;         /* read so far */
    uint8_t *out;
    size_t cap;
    int rc; /* the first error: TFE_ENOMEM; TFE_EINVAL: `in` is something else, and all that is read
               after it is 0 or "" */
};

void pack_u64(struct pack *p, uint64_t *number);
void pack_u32(struct pack *p, uint32_t *number);
void pack_bool(struct pack *p, bool *flag);
void pack_wall(struct pack *p, struct tfe_wall *at);
/* NULL is written as "". */
void pack_text(struct pack *p, const char **text);
void pack_bytes(struct pack *p, const uint8_t **bytes, size_t *n);

#endif
