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
#define RECORD_TEXT_MAX 320

enum record_type {
    RECORD_TEXT,     /* const char *; NULL if unknown */
    RECORD_WORD,     /* const char *, one of a fixed set of words, which needs no quoting */
    RECORD_LABELS,   /* const char *: "K=V,K=V", an object in JSON */
    RECORD_U32,      /* uint32_t */
    RECORD_U64,      /* uint64_t */
    RECORD_BOOL,     /* bool */
    RECORD_REAL,     /* double, finite */
    RECORD_PID,      /* uint32_t; 0 is shown as unknown in tables */
    RECORD_PIDS,     /* const uint32_t *, with a size_t count at offset n */
    RECORD_JSON,     /* const char *: text of a JSON value, which JSON contains as it is; NULL if
                        unknown */
    RECORD_TIME,     /* int64_t (struct tfe_wall), ms since 1970; 0 or less if unknown */
    RECORD_AGE,      /* uint32_t, ms; 0 if unknown */
    RECORD_DURATION, /* int64_t, ms; below 0 if unknown */
    RECORD_PART      /* an embedded struct with a schema of its own, whose fields are inserted */
};

struct record_schema;

struct record_field {
    const char *key;  /* key in JSON and CSV; NULL to omit the field there */
    const char *head; /* column heading in tables; NULL to omit the field there */
    enum record_type type;
    size_t offset;      /* offset of the value in the struct */
    size_t has;         /* offset of a bool that says whether the value is known; 0 if always */
    size_t lower_bound; /* SPAN: offset of a bool that says that the value is a lower bound; 0 if
                           never */
    size_t n;
    bool is_0_unknown; /* U32, U64: 0 means unknown */
    double scale;      /* U32, U64: factor by which the value is shown, as a REAL; 0 for none */
    /* TEXT, WORD: computes the text, in buf (RECORD_TEXT_MAX bytes) or static, instead of reading
     * it at offset. */
    const char *(*text)(const void *row, char *buf);
    const struct record_schema *part;
};

struct record_schema {
    const char *id; /* key of the field that identifies a record of one list; NULL if none does */
    const struct record_field *fields;
    size_t n_fields;
    /* Size of the struct, and of the part that messages provide, at its start; the rest is
     * computed. */
    size_t size, given;
};

/* Returns the i-th field of a schema, with embedded schemas expanded, or NULL if there are fewer.
 * Sets *row to the struct that contains the field. */
const struct record_field *record_field(const struct record_schema *schema, size_t i,
                                        const void **row);

/* Returns the field with this key or, if key is NULL, this heading; NULL if there is none. Sets
 * *row to the struct that contains the field. */
const struct record_field *record_find_field(const struct record_schema *schema, const char *key,
                                             const char *head, const void **row);

/* The value of a field in one of a few forms. */
struct record_value {
    enum {
        RECORD_NONE,
        RECORD_IS_TEXT,
        RECORD_IS_NUMBER,
        RECORD_IS_REAL,
        RECORD_IS_BOOL,
        RECORD_IS_LIST
    } form;
    const char *text; /* text, borrowed from the record or in buf */
    double real;
    int64_t number;       /* number, capped at INT64_MAX; 0 or 1 for a BOOL */
    const uint32_t *list; /* n_list numbers, borrowed */
    size_t n_list;
};

/* Returns the value of a field. Precondition: the field is not a PART. */
struct record_value record_value(const struct record_field *field, const void *row,
                                 char buf[RECORD_TEXT_MAX]);

/* Returns a copy of the part of a record that messages provide, the rest zeroed, with all texts and
 * lists that it points to, as one block for free(3); NULL if out of memory. Precondition: every
 * pointer in the record is described by a field and lies in that part. */
void *record_copy(const struct record_schema *schema, const void *row) TFE_MUST_CHECK;

/* A list of records. Zeroed: empty. */
struct record_list {
    struct record {
        const struct record_schema *schema;
        void *at; /* the record, owned by the list; computed fields may be set */
    } * v;
    size_t n;
    size_t cap;
};

/* Appends a copy of a record. Returns 0 or TFE_ENOMEM. */
int record_list_add(struct record_list *list, const struct record_schema *schema,
                    const void *row) TFE_MUST_CHECK;

/* Frees all records; the list can be reused. */
void record_list_done(struct record_list *list);

#endif
