/* server/store/pack.c: serialises values. Numbers are varints of 7 bits per byte; texts include
 * their NUL, so that they can be used in place. */
#include "server/store/pack.h"

#include <stdlib.h>
#include <string.h>

static void fail(struct pack *p, int rc)
{
    if (p->rc == 0) {
        p->rc = rc;
    }
}

static void put(struct pack *p, const void *bytes, size_t n)
{
    if (p->rc != 0) {
        return;
    }
    if (n > p->cap - p->n) {
        const size_t cap = 2 * (p->n + n);
        uint8_t *out = realloc(p->out, cap);
        if (!out) {
            fail(p, TFE_ENOMEM);
            return;
        }
        p->out = out;
        p->cap = cap;
    }
    memcpy(p->out + p->n, bytes, n);
    p->n += n;
}

/* Consumes n bytes; returns NULL if there are fewer. */
static const uint8_t *get(struct pack *p, size_t n)
{
    if (p->rc != 0 || n > p->n - p->at) {
        fail(p, TFE_EINVAL);
        return NULL;
    }
    const uint8_t *bytes = p->in + p->at;
    p->at += n;
    return bytes;
}

static uint64_t get_number(struct pack *p)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t *byte = get(p, 1);
        if (!byte) {
            return 0;
        }
        number |= (uint64_t)(*byte & 0x7f) << shift;
        if (*byte < 0x80) {
            return number;
        }
    }
    fail(p, TFE_EINVAL);
    return 0;
}

void pack_u64(struct pack *p, uint64_t *number)
{
    uint8_t bytes[10];
    size_t n = 0;
    if (p->in) {
        *number = get_number(p);
        return;
    }
    uint64_t rest = *number;
    for (; rest > 0x7f; rest >>= 7) {
        bytes[n++] = (uint8_t)(rest | 0x80);
    }
    bytes[n++] = (uint8_t)rest;
    put(p, bytes, n);
}

void pack_u32(struct pack *p, uint32_t *number)
{
    uint64_t wide = *number;
    pack_u64(p, &wide);
    if (wide > UINT32_MAX) {
        fail(p, TFE_EINVAL);
        wide = 0;
    }
    *number = (uint32_t)wide;
}

void pack_bool(struct pack *p, bool *flag)
{
    uint32_t number = *flag;
    pack_u32(p, &number);
    if (number > 1) {
        fail(p, TFE_EINVAL);
    }
    *flag = number == 1;
}

void pack_wall(struct pack *p, struct tfe_wall *at)
{
    uint64_t number = (uint64_t)at->ms;
    pack_u64(p, &number);
    at->ms = (int64_t)number;
}

void pack_text(struct pack *p, const char **text)
{
    if (!p->in) {
        const char *from = *text ? *text : "";
        put(p, from, strlen(from) + 1);
        return;
    }
    const void *end = p->rc == 0 ? memchr(p->in + p->at, 0, p->n - p->at) : NULL;
    const uint8_t *from = end ? get(p, (size_t)((const uint8_t *)end - (p->in + p->at)) + 1) : NULL;
    if (!from) {
        fail(p, TFE_EINVAL);
    }
    *text = from ? (const char *)from : "";
}
