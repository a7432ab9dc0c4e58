/* tests/sim/disk.h: the server's simulated disk: writes, syncs, and what a crash leaves. */
#ifndef TFE_TESTS_SIM_DISK_H
#define TFE_TESTS_SIM_DISK_H

#include "server/core/rdzv.h"
#include "tests/sim/world.h"

/* Returns true if the disk accepts writes now. */
bool disk_is_well(const struct world *w);
uint32_t disk_latency(const struct world *w);
void disk_set_latency(struct world *w, uint32_t lo_ms, uint32_t hi_ms);
/* Makes every write fail (full) or never finish (stuck) until this time. */
void disk_fail_until(struct world *w, int64_t at);
void disk_stall_until(struct world *w, int64_t at);

struct disk *disk_new(struct world *w);
void disk_free(struct world *w);

/* Writes a copy of the record; calls server_written when it is synced. */
void disk_write(struct world *w, const struct rdzv_record *record);
/* Ends the server's process: of the writes under way the first `kept` are on disk, and the rest is
 * lost. */
void disk_crash(struct world *w, uint32_t kept);
uint32_t disk_pending(const struct world *w);

/* Erases the disk. Precondition: the server is down. */
void disk_lose(struct world *w);

/* Restores the state of this many epochs of each job ago, as far as older images exist.
 * Precondition: the server is down. */
void disk_roll_back(struct world *w, uint32_t epochs);

/* Simulates a disk that loses a synced write: the last write of a job's record is gone, or the
 * record is torn and unreadable until the next write. Precondition: the server is down. */
void disk_forget_last(struct world *w, uint32_t index);
void disk_tear(struct world *w, uint32_t index);
uint32_t disk_records(const struct world *w);
bool disk_is_torn(const struct world *w, uint32_t index);

/* Returns true if the job had a record and the newest one is no longer on the disk. */
bool disk_has_lost(const struct world *w, const char *job);
/* Returns the record at this index, or NULL after the last. Borrowed. */
const struct rdzv_record *disk_record(const struct world *w, uint32_t index);

#endif
