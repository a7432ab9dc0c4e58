/* server/ctl/watch_view.h: the model of tfe-ctl watch and its drawing. Pure: no terminal, no
 * server. */
#ifndef TFE_SERVER_CTL_WATCH_VIEW_H
#define TFE_SERVER_CTL_WATCH_VIEW_H

#include <stdbool.h>

#include "common/base/id.h"
#include "common/base/time.h"
#include "common/records/record.h"
#include "server/ctl/watch_screen.h"

enum watch_sort { WATCH_BY_RANK, WATCH_BY_NAME, WATCH_BY_ROLE, WATCH__SORTS };

/* Number of points that a curve keeps: more than any screen has columns. */
#define WATCH_POINTS_MAX 512

struct watch_curve {
    const char *name; /* name of the curve, as "steps/s" */
    double v[WATCH_POINTS_MAX];
    size_t n;
    uint64_t last; /* number of the newest point */
};

struct watch_model {
    const char *server;  /* address of the server, HOST:PORT */
    const char *trouble; /* why there is no connection; NULL while there is one */
    struct tfe_wall now;
    bool utf8;
    bool has_answer;           /* true once a response has arrived */
    struct record_list jobs;   /* HEALTH and STATUS_JOB records */
    struct record_list status; /* STATUS_JOB and STATUS_NODE records of the selected job */
    struct record_list ledger; /* epochs of the selected job, with computed fields */
    struct record_list events; /* events of the selected job, the oldest first */
    struct watch_curve curves[2];
    struct tfe_id job;  /* selected job; "" before the first */
    struct tfe_id node; /* selected node; "" before the first */
    enum watch_sort sort;
    bool detail;          /* true if the fields of one node are shown instead of all nodes */
    const char *question; /* question in the last line; NULL if the keys are shown there */
    const char *message;  /* message in the last line; NULL if there is none */
};

/* Draws the model: problems of the server always, then jobs, the selected job with its nodes, and
 * events, as many of each as fit. */
void watch_draw(const struct watch_model *m, struct watch_screen *s);

/* Moves the selection by this many nodes, or jobs, in the displayed order. */
void watch_choose_node(struct watch_model *m, int by);
void watch_choose_job(struct watch_model *m, int by);

/* Returns the run of the selected job; 0 if the job is gone. */
uint32_t watch_run(const struct watch_model *m);

/* Returns the record of the selected node, or NULL. */
const struct msg_status_node *watch_node(const struct watch_model *m);

#endif
