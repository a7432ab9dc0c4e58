/* server/ctl/watch_view.h: what tfe-ctl watch knows, as a screen. Pure: no terminal, no server. */
#ifndef TFE_SERVER_CTL_WATCH_VIEW_H
#define TFE_SERVER_CTL_WATCH_VIEW_H

#include <stdbool.h>

#include "common/base/id.h"
#include "common/base/time.h"
#include "common/records/record_list.h"
#include "server/ctl/watch_screen.h"

enum watch_sort { WATCH_BY_RANK, WATCH_BY_NAME, WATCH_BY_ROLE, WATCH__SORTS };

/* Points of one curve that are kept, the newest last: more than any screen has columns. */
#define WATCH_POINTS_MAX 512

struct watch_curve {
    const char *name; /* "steps/s" */
    double v[WATCH_POINTS_MAX];
    size_t n;
    uint64_t last; /* the newest point's number */
};

struct watch_model {
    const char *server;  /* HOST:PORT */
    const char *trouble; /* why there is no connection; NULL: there is one */
    struct tfe_wall now;
    bool utf8;
    bool has_answer;        /* rows have come */
    struct row_list jobs;   /* HEALTH and STATUS_JOBs */
    struct row_list status; /* of the chosen job: STATUS_JOB and its nodes */
    struct row_list ledger; /* likewise, worked out */
    struct row_list events; /* likewise, the oldest first */
    struct watch_curve curves[2];
    struct tfe_id job;  /* the chosen one; "" none yet */
    struct tfe_id node; /* likewise */
    enum watch_sort sort;
    bool detail;          /* of the node, in place of all nodes */
    const char *question; /* in the last line; NULL: keys are shown there */
    const char *message;  /* likewise */
};

/* What is not well is always there, then jobs, the chosen job and its nodes, events; of each as
 * much as finds room. */
void watch_draw(const struct watch_model *m, struct watch_screen *s);

/* Moves the choice by so many nodes, or jobs, in the order in which they are shown. */
void watch_choose_node(struct watch_model *m, int by);
void watch_choose_job(struct watch_model *m, int by);

/* The chosen job's run; 0: it is not there. */
uint32_t watch_run(const struct watch_model *m);

/* The chosen node's row; NULL: none. */
const struct msg_status_node *watch_node(const struct watch_model *m);

#endif
