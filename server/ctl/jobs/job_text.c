/* server/ctl/jobs/job_text.c: see job_text.h. */
#include "server/ctl/jobs/job_text.h"

#include <stdbool.h>
#include <string.h>

#include "common/job/tfjob.h"
#include "server/ctl/jobs/yaml_tree.h"

/* Returns the number of the first line that contains "{{" outside of comments; 0 if there is none.
 */
static size_t find_template(const char *text, size_t n)
{
    bool is_comment = false;
    size_t line = 1;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') {
            line++;
            is_comment = false;
        } else if (text[i] == '#' && (i == 0 || strchr(" \t\n", text[i - 1]))) {
            is_comment = true;
        } else if (!is_comment && text[i] == '{' && i + 1 < n && text[i + 1] == '{') {
            return line;
        }
    }
    return 0;
}

int job_text_read(const char *text, size_t n, json_t **ret, struct tfe_reason *reason)
{
    json_t *tree;
    int rc = yaml_tree_read(text, n, &tree, reason);
    if (rc == 0) {
        rc = tfjob_read(tree, ret, reason);
        json_decref(tree);
    }
    const size_t line = rc == TFE_EINVAL ? find_template(text, n) : 0;
    if (line > 0) {
        reason_prefix(reason, "line %zu contains \"{{\": the template was not rendered", line);
    }
    return rc;
}
