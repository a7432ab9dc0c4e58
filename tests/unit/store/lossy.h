/* tests/unit/store/lossy.h: an in-memory disk as an SQLite VFS. After a simulated power failure
 * unsynced writes are kept, lost or torn; and any single call can be made to fail.
 *
 * The VFS has no shared memory (version 1): the store locks its file permanently and needs none. */
#ifndef TFE_TESTS_UNIT_STORE_LOSSY_H
#define TFE_TESTS_UNIT_STORE_LOSSY_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/unit/test_runner.h"

#define LOSSY_FILES 4
#define LOSSY_SECTOR 512
#define LOSSY_PATH "/lossy/rdzv.db"

struct lossy_bytes {
    char *at;
    size_t n;
};

/* A write (bytes not NULL) or truncation since the last sync. */
struct lossy_op {
    struct lossy_op *next;
    size_t offset;
    struct lossy_bytes bytes;
};

struct lossy_image {
    char name[64]; /* "" if the slot is free */
    struct lossy_bytes synced;
    struct lossy_bytes seen; /* content that a reader sees while the power is on */
    struct lossy_op *first, **last;
};

struct lossy_disk {
    struct lossy_image images[LOSSY_FILES];
    sqlite3_vfs vfs;
    sqlite3_vfs *system;
    struct rng rng;
    long writes_left; /* writes and syncs until the power fails; negative for never */
    bool is_dead;
    long calls;   /* number of calls so far */
    long fail_at; /* number of the call that fails; 0 for none */
    int fail_with;
    bool has_failed;
    bool is_lock; /* true if the call takes a lock */
};

extern struct lossy_disk lossy;

/* Allocator of the fake disk, for tests that make the store's allocations fail. */
extern void *(*lossy_realloc)(void *p, size_t n);

unsigned lossy_below(unsigned n);

/* Simulates the return of power: each file has its synced content and a random part of the rest. */
void lossy_power_cycle(void);

/* Registers the empty disk with SQLite as "lossy". */
void lossy_install(uint64_t seed);

/* Erases all files and faults. */
void lossy_wipe(void);

#endif
