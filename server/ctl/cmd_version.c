/* server/ctl/cmd_version.c: tfe-ctl version: the versions of tfe-ctl and of the server. */
#include <stdio.h>
#include <string.h>

#include "common/base/version.h"
#include "common/records/json_text.h"
#include "common/records/schemas.h"
#include "common/text/escape.h"
#include "server/ctl/verb.h"

/* Takes the labels of the metric "tfe_build_info", "version=0.1.0,commit=4f3c". A server without
 * that gauge has an unknown version: it is older than this verb. */
static int show(const struct ctl_settings *settings, const char *operand, struct record_list *rows)
{
    const struct msg_gauge *build = NULL;
    for (size_t i = 0; i < rows->n && !build; i++) {
        const struct msg_gauge *gauge = rows->v[i].at;
        build = strcmp(gauge->name, "tfe_build_info") == 0 ? gauge : NULL;
    }
    if (settings->json) {
        json_t *row = build ? record_json(&schema_gauge, build) : NULL;
        json_t *answer = json_pack("{s:{s:s, s:s}, s:O?}", "client", "version", TFE_VERSION,
                                   "commit", tfe_commit, "server", json_object_get(row, "labels"));
        json_decref(row);
        return verb_print_json(answer);
    }
    char text[MSG_GAUGE_LABELS_MAX];
    (void)printf("client  version=%s,commit=%s\n", TFE_VERSION, tfe_commit);
    (void)printf("server  %s\n",
                 build ? escape_text(build->labels, text, sizeof(text)) : "unknown");
    return 0;
}

const struct ctl_verb ctl_verb_version = {
    .name = "version",
    .about = "show the versions of tfe-ctl and of the server",
    .operation = OPERATION_GAUGES,
    .show = show,
    .shows_json = true,
};
