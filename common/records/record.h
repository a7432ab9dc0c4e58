/* common/records/record.h: records, lists of them, and the schemas that describe their fields.
 *
 * A record is one displayed thing: a job, a node, an epoch. It is a struct of a message, sometimes
 * extended by computed fields. Its schema (schemas.h) is a table of fields, which all writers
 * follow: json_text.h writes JSON and CSV, text_table.h aligned
 * columns. A new kind of record needs only a schema; a new format needs only a writer. The type of
 * a field implies its unit: times are milliseconds, and their keys end in _ms. */
#ifndef TFE_COMMON_RECORDS_RECORD_H
#define TFE_COMMON_RECORDS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* Buffer size for computed text: a label and a word, or a host and a port. */
#define ROW_ROOM 320

enum row_type {
    ROW_TEXT,   /* const char *; NULL if unknown */
    ROW_WORD,   /* const char *, one of a fixed set of words, which needs no quoting */
    ROW_LABELS, /* const char *: "K=V,K=V", an object in JSON */
    ROW_U32,    /* uint32_t */
    ROW_U64,    /* uint64_t */
    ROW_BOOL,   /* bool */
    ROW_REAL,   /* double, finite */
    ROW_PID,    /* uint32_t; 0 is shown as unknown in tables */
    ROW_PIDS,   /* const uint32_t *, with a size_t count at offset n */
    ROW_TEXTS,  /* const char *const *, with a size_t count at offset n */
    ROW_PAIRS,  /* as TEXTS, each "K=V" or "K": an object in JSON, in which K alone is true */
    ROW_MOMENT, /* int64_t (struct tfe_wall), ms since 1970; 0 or less if unknown */
    ROW_AGE,    /* uint32_t, ms; 0 if unknown */
    ROW_SPAN,   /* int64_t, ms; below 0 if unknown */
    ROW_PART    /* an embedded struct with a schema of its own, whose fields are inserted */
};

struct row_kind;

struct row_field {
    const char *key;  /* key in JSON and CSV; NULL to omit the field there */
    const char *head; /* column heading in tables; NULL to omit the field there */
    enum row_type type;
    size_t offset; /* offset of the value in the struct */
    size_t has;    /* offset of a bool that says whether the value is known; 0 if always */
    size_t least; /* SPAN: offset of a bool that says that the value is a lower bound; 0 if never */
    size_t n;
    bool is_0_unknown; /* U32, U64: 0 means unknown */
    double scale;      /* U32, U64: factor by which the value is shown, as a REAL; 0 for none */
    /* TEXT, WORD: computes the text, in room (ROW_ROOM bytes) or static, instead of reading it at
     * offset. */
    const char *(*text)(const void *row, char *room);
    const struct row_kind *part;
};

struct row_kind {
    const char *name; /* name of the record: "node" */
    const struct row_field *fields;
    size_t n_fields;
    /* Size of the struct, and of the part that messages provide, at its start; the rest is
     * computed. */
    size_t size, given;
};

/* Returns the i-th field of a schema, with embedded schemas expanded, or NULL if there are fewer.
 * Sets *row to the struct that contains the field. */
const struct row_field *row_field(const struct row_kind *kind, size_t i, const void **row);

/* Returns the field with this key or, if key is NULL, this heading; NULL if there is none. Sets
 * *row to the struct that contains the field. */
const struct row_field *row_find(const struct row_kind *kind, const char *key, const char *head,
                                 const void **row);

/* The value of a field in one of a few forms. */
struct row_value {
    enum {
        ROW_NONE,
        ROW_IS_TEXT,
        ROW_IS_NUMBER,
        ROW_IS_REAL,
        ROW_IS_BOOL,
        ROW_IS_LIST,
        ROW_IS_TEXTS
    } form;
    const char *text; /* text, borrowed from the record or in room */
    double real;
    int64_t number;           /* number, capped at INT64_MAX; 0 or 1 for a BOOL */
    const uint32_t *list;     /* n_list numbers, borrowed */
    const char *const *texts; /* n_list texts, borrowed */
    size_t n_list;
};

/* Returns the value of a field. Precondition: the field is not a PART. */
struct row_value row_value(const struct row_field *field, const void *row, char room[ROW_ROOM]);

/* Returns a copy of the part of a record that messages provide, the rest zeroed, with all texts and
 * lists that it points to, as one block for free(3); NULL if out of memory. Precondition: every
 * pointer in the record is described by a field and lies in that part. */
void *row_copy(const struct row_kind *kind, const void *row) TFE_MUST_CHECK;

/* A list of records. Zeroed: empty. */
struct row_list {
    struct row {
        const struct row_kind *kind;
        void *at; /* the record, owned by the list; computed fields may be set */
    } * v;
    size_t n;
    size_t cap;
};

/* Appends a copy of a record. Returns 0 or TFE_ENOMEM. */
int row_list_add(struct row_list *list, const struct row_kind *kind,
                 const void *row) TFE_MUST_CHECK;

/* Returns the first record if it has this schema, else NULL. */
const void *row_list_head(const struct row_list *list, const struct row_kind *kind);

/* Frees all records; the list can be reused. */
void row_list_done(struct row_list *list);

#endif
