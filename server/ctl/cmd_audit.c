/* server/ctl/cmd_audit.c: tfe-ctl audit: lists the audit log and verifies its chain of hashes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cli/option_table.h"
#include "common/records/audit_chain.h"
#include "common/records/schemas.h"
#include "server/ctl/verb.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Returns the number of the first row that does not match the chain; 0 if all do. */
static uint64_t first_false(const struct record_list *rows)
{
    const char *before = "";
    for (size_t i = 0; i < rows->n; i++) {
        const struct msg_audit_row *row = rows->v[i].at;
        char hash[AUDIT_HASH_CHARS + 1];
        audit_hash(row, before, hash);
        if (row->number != i + 1 || strcmp(hash, row->hash) != 0) {
            return i + 1;
        }
        before = row->hash;
    }
    return 0;
}

static int verify(const struct record_list *rows)
{
    const uint64_t number = first_false(rows);
    if (number != 0) {
        (void)fprintf(stderr,
                      "tfe-ctl: the audit was changed: row %" PRIu64
                      " does not follow from those before it\n",
                      number);
        return TFE_EAUTH;
    }
    const struct msg_audit_row *last = rows->n > 0 ? rows->v[rows->n - 1].at : NULL;
    (void)printf("%zu rows, hash chain intact up to %s\n", rows->n,
                 last ? last->hash : "the beginning");
    return 0;
}

static int show(const struct ctl_settings *settings, const char *operand, struct record_list *rows)
{
    if (settings->verify) {
        return verify(rows);
    }
    if (settings->json) {
        return verb_print_json(operation_json(OPERATION_AUDIT, rows, NULL));
    }
    verb_print_table(&ctl_verb_audit.table, rows, NULL);
    return 0;
}

#define FIELD(name) offsetof(struct ctl_settings, name)

static const struct option_spec options[] = {
    FLAG("verify", verify, "only verify the hash chain, and print the last row's hash"),
};

const struct ctl_verb ctl_verb_audit = {
    .name = "audit",
    .about = "show orders and refused requests with their senders",
    .options = options,
    .n_options = COUNT(options),
    .operation = OPERATION_AUDIT,
    CTL_COLUMNS(schema_audit_row, "NUMBER", "AT", "KEY", "LABEL", "FROM", "WHAT", "ABOUT",
                "RESULT"),
    .show = show,
    .shows_json = true,
};
