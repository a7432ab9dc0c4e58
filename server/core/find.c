/* server/core/find.c: which node a person means by a name. */
#include <string.h>

#include "server/core/core.h"

enum meaning { MEANS_ID, MEANS_CONNECTED, MEANS_SUSPECT };

static bool is_meant(const struct node *node, const char *name, enum meaning how)
{
    if (node->gone) {
        return false;
    }
    switch (how) {
    case MEANS_ID:
        return strcmp(node->id.text, name) == 0;
    case MEANS_CONNECTED:
        return node->session != NO_SESSION && strcmp(node->name, name) == 0;
    case MEANS_SUSPECT:
        return node->session == NO_SESSION && strcmp(node->name, name) == 0;
    }
    return false;
}

static void look(const struct rdzv *r, const char *name, enum meaning how, struct rdzv_found *ret)
{
    struct job_tree *jobs = (struct job_tree *)(uintptr_t)&r->jobs; /* tree.h knows no const */
    struct job *job;
    RB_FOREACH(job, job_tree, jobs)
    {
        struct node *node;
        RB_FOREACH(node, node_tree, &job->nodes)
        {
            if (is_meant(node, name, how)) {
                if (ret->n < RDZV_FOUND_MAX) {
                    ret->v[ret->n].job = job->name.text;
                    ret->v[ret->n].node = node->id.text;
                }
                ret->n++;
            }
        }
    }
}

int rdzv_find_node(const struct rdzv *r, const char *name, struct rdzv_found *ret_found)
{
    struct rdzv_found found = {.n = 0};
    look(r, name, MEANS_ID, &found);
    if (found.n == 0) {
        look(r, name, MEANS_CONNECTED, &found);
    }
    if (found.n == 0) {
        look(r, name, MEANS_SUSPECT, &found);
    }
    if (found.n == 0) {
        return TFE_ENOENT;
    }
    *ret_found = found;
    return 0;
}
