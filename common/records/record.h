/* common/records/record.h: what a row consists of: the one description that everybody who shows it
 * goes by.
 *
 *   a struct: of a message,    ──► its kind: a table of    ──► sinks: record_list.h keeps rows,
 * json_text.h makes or with what follows from      fields (schemas.h)            objects and CSV of
 * them, table.h several of them                                            columns for people
 *
 * A row is one thing that can be seen: a job, a node, an epoch. Whoever adds a kind writes its
 * table; whoever adds a way to show rows writes a sink, and names no kind in it. A field's unit is
 * in its type: times are milliseconds, and the keys of those end in _ms. */
#ifndef TFE_COMMON_RECORDS_RECORD_H
#define TFE_COMMON_RECORDS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* What text() of a field may need: a label and a word, or a host and a port. */
#define ROW_ROOM 320

enum row_type {
    ROW_TEXT,   /* const char *; NULL: not known */
    ROW_WORD,   /* the same, but one of our own words, that no form has to quote */
    ROW_LABELS, /* const char *: "K=V,K=V", an object in JSON */
    ROW_U32,    /* uint32_t */
    ROW_U64,    /* uint64_t */
    ROW_BOOL,   /* bool */
    ROW_REAL,   /* double, finite */
    ROW_PID,    /* uint32_t; 0: people are told that it is not known */
    ROW_PIDS,   /* const uint32_t *, and a size_t at n */
    ROW_MOMENT, /* int64_t (struct tfe_wall), ms since 1970; 0 or less: not known */
    ROW_AGE,    /* uint32_t, ms; 0: not known */
    ROW_SPAN,   /* int64_t, ms; below 0: not known */
    ROW_PART    /* a struct that has a kind of its own: its fields stand here */
};

struct row_kind;

struct row_field {
    const char *key;  /* in JSON and CSV; NULL: not there */
    const char *head; /* of a column for people; NULL: not there */
    enum row_type type;
    size_t offset; /* in the struct */
    size_t has;    /* of a bool that says whether it is known; 0: it is */
    size_t least;  /* SPAN: of a bool that says that it is as long at least; 0: it is as long */
    size_t n;
    bool is_0_unknown; /* a U32 or U64 that is 0 is not known */
    double scale;      /* … and is told times this, as a REAL; 0: as it is */
    /* TEXT, WORD: made of the row, in room (ROW_ROOM bytes) or static, instead of at offset. */
    const char *(*text)(const void *row, char *room);
    const struct row_kind *part;
};

struct row_kind {
    const char *name; /* "node" */
    const struct row_field *fields;
    size_t n_fields;
    /* Of the struct; and of what comes as a row, at its front: the rest is worked out later. */
    size_t size, given;
};

/* The i-th field of a kind, those of its parts in their place; NULL: there are not so many. *row is
 * moved to the struct that the field is in. */
const struct row_field *row_field(const struct row_kind *kind, size_t i, const void **row);

/* The field of this key, or (key NULL) of this head; NULL: there is none. *row is moved likewise.
 */
const struct row_field *row_find(const struct row_kind *kind, const char *key, const char *head,
                                 const void **row);

/* What a field says, in the few forms that there are. */
struct row_value {
    enum { ROW_NONE, ROW_IS_TEXT, ROW_IS_NUMBER, ROW_IS_REAL, ROW_IS_BOOL, ROW_IS_LIST } form;
    const char *text; /* borrowed from the row, or in room */
    double real;
    int64_t number;       /* capped; BOOL: 0 or 1 */
    const uint32_t *list; /* n_list of them; borrowed */
    size_t n_list;
};

/* Precondition: not of a PART. */
struct row_value row_value(const struct row_field *field, const void *row, char room[ROW_ROOM]);

/* A copy of what is given of a row, the rest zeroed, with all texts and lists that it points to:
 * one block, for free(3). Every pointer in it is described by a field, and lies in what is given.
 * NULL: no memory. */
void *row_copy(const struct row_kind *kind, const void *row) TFE_MUST_CHECK;

#endif
