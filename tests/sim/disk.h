/* tests/sim/disk.h: the server's disk: what is written, what is synced, what a crash leaves. */
#ifndef TFE_TESTS_SIM_DISK_H
#define TFE_TESTS_SIM_DISK_H

#include "server/core/rdzv.h"
#include "tests/sim/world.h"

/* A write is synced after so long. */
bool disk_is_well(const struct world *w);
uint32_t disk_latency(const struct world *w);
void disk_set_latency(struct world *w, uint32_t lo_ms, uint32_t hi_ms);
/* Until then every write fails (full), or none is answered (stuck). */
void disk_fail_until(struct world *w, int64_t at);
void disk_stall_until(struct world *w, int64_t at);

struct disk *disk_new(struct world *w);
void disk_free(struct world *w);

/* Copies the record; ends in server_written. */
void disk_write(struct world *w, const struct rdzv_record *record);
/* The server's process has ended: of the writes under way the first `kept` are on disk, the rest is
 * lost. */
void disk_crash(struct world *w, uint32_t kept);
uint32_t disk_pending(const struct world *w);

/* Nothing is left, as on another machine. Precondition: the server is down. */
void disk_lose(struct world *w);

/* It is as it was so many epochs of each job ago, as far as older images go. Precondition: the
 * server is down. */
void disk_roll_back(struct world *w, uint32_t epochs);

/* What a disk leaves that has not kept its word when the machine fell: of a job's record the last
 * write is gone, or it is torn, so that it cannot be read, and stays so until another is written.
 * Precondition: the server is down. */
void disk_forget_last(struct world *w, uint32_t index);
void disk_tear(struct world *w, uint32_t index);
uint32_t disk_records(const struct world *w);
bool disk_is_torn(const struct world *w, uint32_t index);

/* Whether the job's newest record is not there, if it had one: none is, or an older one. */
bool disk_has_lost(const struct world *w, const char *job);
/* What a new server finds; index from 0 on, NULL: no more. Borrowed. */
const struct rdzv_record *disk_record(const struct world *w, uint32_t index);

#endif
