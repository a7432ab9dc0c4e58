/* server/ctl/jobs/job_text.c: see job_text.h. */
#include "server/ctl/jobs/job_text.h"

#include "common/jobs/job_file.h"
#include "server/ctl/jobs/yaml_tree.h"

int job_text_read(const char *text, size_t n, json_t **ret, struct tfe_why *warning,
                  struct tfe_why *why)
{
    json_t *tree;
    int rc = yaml_tree_read(text, n, &tree, why);
    if (rc == 0) {
        rc = job_file_take(tree, ret, warning, why);
        json_decref(tree);
    }
    return rc;
}
