/* tests/unit/store/lossy.h: a disk in memory, as a VFS of SQLite: it can lose its power, when what
 * was not synced is there, is not there, or is torn; and it can fail at any one call.
 *
 * Without shared memory (version 1), as the store, which locks its file for life, needs none. */
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
    char name[64]; /* "": free */
    struct lossy_bytes synced;
    struct lossy_bytes seen; /* by whoever reads while the power is on */
    struct lossy_op *first, **last;
};

struct lossy_disk {
    struct lossy_image images[LOSSY_FILES];
    sqlite3_vfs vfs;
    sqlite3_vfs *system;
    struct rng rng;
    long writes_left; /* writes and syncs until the power goes; below 0: it stays */
    bool is_dead;
    long calls;   /* so far */
    long fail_at; /* this call fails; 0 none */
    int fail_with;
    bool has_failed;
    bool is_lock; /* the call is for one */
};

extern struct lossy_disk lossy;

/* A test that takes memory away from the store says here where the disk's own comes from. */
extern void *(*lossy_realloc)(void *p, size_t n);

unsigned lossy_below(unsigned n);

/* The power comes back: of each file what was synced, and of the rest what luck has kept. */
void lossy_power_cycle(void);

/* Puts the disk, empty, where SQLite finds it as "lossy". */
void lossy_install(uint64_t seed);

/* As it was when it was bought. */
void lossy_wipe(void);

#endif
