/* server/core/failure.c: describes the last failure of a job's trainers in one line. */
#include "server/core/failure.h"

#include <string.h>

#include "common/text/text.h"
#include "server/core/job.h"
#include "server/core/layout.h"
#include "server/core/stderr_tail.h"
#include "server/core/verdict.h"

/* Returns the name of a Linux signal, or NULL for one that does not end a process by default. */
static const char *signal_name(uint32_t number)
{
    static const char *const names[] = {
        [1] = "HUP",     [2] = "INT",   [3] = "QUIT",  [4] = "ILL",     [5] = "TRAP",
        [6] = "ABRT",    [7] = "BUS",   [8] = "FPE",   [9] = "KILL",    [10] = "USR1",
        [11] = "SEGV",   [12] = "USR2", [13] = "PIPE", [14] = "ALRM",   [15] = "TERM",
        [16] = "STKFLT", [24] = "XCPU", [25] = "XFSZ", [26] = "VTALRM", [27] = "PROF",
        [29] = "IO",     [30] = "PWR",  [31] = "SYS"};
    return number < sizeof names / sizeof names[0] ? names[number] : NULL;
}

/* Returns true if the server ended the trainer for its silence: it has no exit status or signal of
 * its own. */
static bool is_hang(const struct msg_exited *exited)
{
    return exited->end == ENDING_PROGRESS_TIMEOUT && exited->code == 0 && exited->signal == 0;
}

/* Appends, for example, "exit code 3" or "ended by SIGKILL". */
static void add_end(struct text *text, const struct msg_exited *exited)
{
    const char *name = signal_name(exited->signal);
    if (name) {
        text_addf(text, "ended by SIG%s", name);
    } else if (exited->signal) {
        text_addf(text, "ended by signal %u", exited->signal);
    } else {
        text_addf(text, "exit code %u", exited->code);
    }
}

/* Returns true if an exception may have ended the trainer. It ends Python with status 1, and a C++
 * library may abort afterwards. */
static bool is_by_exception(const struct msg_exited *exited)
{
    return exited->end == ENDING_EXITED && exited->code != 0 &&
           (exited->signal == 0 || exited->signal == 6);
}

static void set_error(struct failure *f, const struct job *job, const struct msg_exited *exited,
                      enum verdict verdict)
{
    const char *tail = exited->tail ? exited->tail : "";
    struct text text;
    f->source[0] = f->end[0] = f->error[0] = '\0';
    text_init(&text, f->error, sizeof(f->error));
    if (is_hang(exited)) {
        const uint32_t s = job->spec.finish_idle_ms / 1000;
        text_addf(&text, "ended after %u %s without activity, while other trainers had succeeded",
                  s < 120 ? s : s / 60, s < 120 ? "s" : "min");
        return;
    }
    if (is_by_exception(exited) || (exited->end == ENDING_EXITED && exited->signal == 6)) {
        stderr_tail_error(tail, f->error, sizeof(f->error));
    }
    if (f->error[0] != '\0') {
        stderr_tail_source(tail, f->source, sizeof(f->source));
        if (strcmp(f->error, "ModuleNotFoundError: No module named 'tensorflow'") == 0) {
            text_setf(f->error, sizeof(f->error),
                      "ModuleNotFoundError: No module named 'tensorflow': activate its environment "
                      "before tfe-agent starts, or use --python");
        }
        struct text end;
        text_init(&end, f->end, sizeof(f->end));
        if (exited->signal || exited->code != 1) {
            add_end(&end, exited);
        }
        return;
    }
    add_end(&text, exited);
    text_add(&text, verdict_effects[verdict].detail);
    char line[FAILURE_ERROR_MAX];
    const size_t n_by_agent = sizeof(MSG_TAIL_BY_AGENT) - 1;
    stderr_tail_line(tail, line, sizeof(line));
    const bool is_by_agent = strncmp(line, MSG_TAIL_BY_AGENT, n_by_agent) == 0;
    if (line[0] != '\0' && (is_by_agent || (exited->end == ENDING_EXITED && !exited->signal))) {
        text_add(&text, ": ");
        text_add_head(&text, is_by_agent ? line + n_by_agent : line, sizeof(f->error) - 1 - text.n);
    }
}

static void set_replica(struct failure *f, const struct job *job, const struct node *node,
                        const struct msg_exited *exited)
{
    struct msg_row row;
    f->rank = layout_rank(job, node->slot.index) + exited->local_rank;
    if (layout_has_roles(&job->spec)) {
        layout_set_role(job, f->rank, &row);
        text_setf(f->replica, sizeof(f->replica), "%s-%u", msg_task_name(row.role),
                  f->rank - row.first);
    } else {
        text_setf(f->replica, sizeof(f->replica), "rank %u", f->rank);
    }
    text_setf(f->node, sizeof(f->node), "%s", node->name[0] ? node->name : node->id.text);
}

void failure_set(struct job *job, const struct node *node, const struct msg_exited *exited,
                 enum verdict verdict, const char *outcome)
{
    struct failure *f = &job->failure;
    struct text tail;
    *f = (struct failure){.epoch = job->epoch.number, .n_same = 1};
    f->is_fault = verdict_effects[verdict].is_charged;
    set_replica(f, job, node, exited);
    set_error(f, job, exited, verdict);
    text_setf(f->outcome, sizeof(f->outcome), "%s", outcome);
    text_init(&tail, f->tail, sizeof(f->tail));
    stderr_tail_add(&tail, exited->tail ? exited->tail : "", FAILURE_TAIL_MAX);
}

/* Returns true if the type of the exception and the line that raised it are the same. The message
 * may differ from rank to rank (paths, ports). */
static bool is_same(const struct failure *f, const struct failure *other)
{
    const size_t n = strcspn(f->error, ":");
    return strcmp(f->source, other->source) == 0 &&
           (f->source[0] != '\0' ? strncmp(f->error, other->error, n + 1) == 0
                                 : strcmp(f->error, other->error) == 0);
}

void failure_add(struct job *job, const struct node *node, const struct msg_exited *exited)
{
    struct failure *f = &job->failure;
    struct failure other = {.epoch = f->epoch};
    if (f->epoch != job->epoch.number || f->epoch == 0) {
        return;
    }
    set_replica(&other, job, node, exited);
    set_error(&other, job, exited, VERDICT_OWN_FAULT);
    if (!is_same(f, &other)) {
        return;
    }
    f->n_same++;
    if (other.rank < f->rank) {
        f->rank = other.rank;
        memcpy(f->replica, other.replica, sizeof(f->replica));
        memcpy(f->node, other.node, sizeof(f->node));
        memcpy(f->error, other.error, sizeof(f->error));
    }
}

static void add_line(const struct failure *f, struct text *text)
{
    text_addf(text, "%s (%s%s%s on %s", f->error, f->source, f->source[0] != '\0' ? ", " : "",
              f->replica, f->node);
    if (f->n_same > 1) {
        text_addf(text, " and %u other%s", f->n_same - 1, f->n_same == 2 ? "" : "s");
    }
    text_addf(text, "%s%s)", f->end[0] != '\0' ? ", " : "", f->end);
}

void failure_describe(const struct job *job, char ret[MSG_SENTENCE_MAX])
{
    struct text text;
    text_init(&text, ret, MSG_SENTENCE_MAX);
    if (job->failure.epoch != 0) {
        add_line(&job->failure, &text);
    }
}

void failure_sentence(const struct job *job, char ret[MSG_SENTENCE_MAX])
{
    const struct failure *f = &job->failure;
    struct text text;
    text_init(&text, ret, MSG_SENTENCE_MAX);
    text_addf(&text, "job %s failed: ", job->name.text);
    if (f->ends_series) {
        text_addf(&text, "%u consecutive epochs made no progress; the last one: ",
                  VERDICT_FAILED_EPOCHS_MAX);
    }
    add_line(f, &text);
    text_add(&text, f->outcome);
    if (f->tail[0] != '\0') {
        text_add(&text, MSG_TAIL_HEAD);
        text_add(&text, f->tail);
    }
}
