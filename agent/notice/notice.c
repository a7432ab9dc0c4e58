/* agent/notice/notice.c: starts the wanted sources, and tells the most pressing warning of each
 * kind. */
#include "agent/notice/notice.h"

#include <stdlib.h>
#include <string.h>

#include "agent/notice/source.h"
#include "common/net/log.h"
#include "common/net/timer.h"

const struct notice_pace notice_pace_default = {
    .aws_ms = 5000,
    .gce_ms = 1000,
    .gce_wait_s = 300,
    .azure_ms = 1000,
    .azure_first_ms = 125000,
    .file_ms = 500,
    .command_ms = 5000,
    .command_within_ms = 30000,
    .auto_ms = 1000,
    .answer_ms = 5000,
    .quiet_ms = 2000,
};

static const struct source_ops *const table[FROM__COUNT] = {
    [FROM_AWS] = &source_aws,   [FROM_GCE] = &source_gce,         [FROM_AZURE] = &source_azure,
    [FROM_FILE] = &source_file, [FROM_COMMAND] = &source_command, [FROM_SIGNAL] = &source_signal,
};

struct notices {
    struct notice_wish wish;
    notice_fn *on_notice;
    void *ctx;
    struct event *quiet;
    bool is_running;
    bool is_drained;
    struct source sources[FROM__COUNT];
    struct source_word told[SOURCE_KINDS]; /* its tag is the source's name */
};

/* --- what the sources say, together ----------------------------------------------------------- */

static void look(struct notices *all);

static void tell(struct notices *all, enum tfe_notice kind, const struct source_word *word)
{
    struct source_word *told = &all->told[kind];
    const struct agent_notice notice = {.kind = kind,
                                        .deadline = word ? word->deadline : TFE_MONO_NEVER,
                                        .withdrawn = !word,
                                        .uncertain = word && word->is_uncertain};
    if (word) {
        *told = *word;
    } else {
        told->is_said = false;
    }
    look(all);
    all->on_notice(all->ctx, &notice, told->tag);
}

/* Of several warnings of one kind the earliest deadline counts. */
static void weigh(struct notices *all, enum tfe_notice kind)
{
    const struct source_word *told = &all->told[kind];
    const struct source_word *most = NULL;
    const char *name = NULL;
    for (size_t i = 0; i < FROM__COUNT; i++) {
        const struct source_word *word = &all->sources[i].words[kind];
        if (word->is_said && (!most || tfe_mono_before(word->deadline, most->deadline))) {
            most = word;
            name = all->sources[i].ops->name;
        }
    }
    if (most) {
        struct source_word now = *most;
        memset(now.tag, 0, sizeof now.tag);
        memcpy(now.tag, name, strlen(name));
        if (!told->is_said || told->deadline.ms != now.deadline.ms) {
            tell(all, kind, &now);
        }
    } else if (told->is_said) {
        tell(all, kind, NULL);
    }
}

void source_tell(struct source *s, enum tfe_notice kind, const char *tag, struct tfe_mono deadline,
                 bool is_uncertain)
{
    struct source_word *word = &s->words[kind];
    char cut[SOURCE_TAG_MAX + 1] = "";
    const size_t n = strlen(tag);
    memcpy(cut, tag, n < SOURCE_TAG_MAX ? n : SOURCE_TAG_MAX);
    if (word->is_said && strcmp(word->tag, cut) == 0) {
        return;
    }
    *word =
        (struct source_word){.is_said = true, .is_uncertain = is_uncertain, .deadline = deadline};
    memcpy(word->tag, cut, sizeof cut);
    log_info("notice_heard", LOG_S("source", s->ops->name), LOG_S("kind", msg_notice_name(kind)),
             LOG_B("uncertain", is_uncertain), LOG_S("what", cut[0] ? cut : NULL));
    weigh(s->all, kind);
}

void source_quiet(struct source *s, enum tfe_notice kind)
{
    struct source_word *word = &s->words[kind];
    if (word->is_said) {
        word->is_said = false;
        log_info("notice_withdrawn", LOG_S("source", s->ops->name),
                 LOG_S("kind", msg_notice_name(kind)));
        weigh(s->all, kind);
    }
}

/* --- drained ---------------------------------------------------------------------------------- */

static bool is_warned(const struct notices *all)
{
    bool warned = false;
    for (size_t kind = 1; kind < SOURCE_KINDS; kind++) {
        warned = warned || (kind != NOTICE_REBALANCE && all->told[kind].is_said);
    }
    return warned;
}

static void set_drained(struct notices *all, bool is_drained)
{
    if (all->is_drained == is_drained) {
        return;
    }
    all->is_drained = is_drained;
    for (size_t i = 0; i < FROM__COUNT; i++) {
        struct source *s = &all->sources[i];
        if (s->own && !s->is_over && s->ops->drained) {
            s->ops->drained(s, is_drained);
        }
    }
}

static void on_quiet(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    set_drained(ctx, true);
}

/* Something has begun, ended, or been warned of. */
static void look(struct notices *all)
{
    if (all->is_running || !is_warned(all)) {
        evtimer_del(all->quiet);
        set_drained(all, false);
    } else if (!all->is_drained && !evtimer_pending(all->quiet, NULL)) {
        timer_after(all->quiet, all->wish.pace->quiet_ms);
    }
}

void notices_set_running(struct notices *all, bool is_running)
{
    all->is_running = is_running;
    look(all);
}

/* --- their life ------------------------------------------------------------------------------- */

static int start(struct notices *all, struct event_base *base, enum notice_from from)
{
    const enum notice_wanted wanted = all->wish.choice->wanted[from];
    struct source *s = &all->sources[from];
    if (wanted == WANTED_NEVER) {
        return 0;
    }
    s->own = calloc(1, s->ops->size);
    if (!s->own) {
        return TFE_ENOMEM;
    }
    s->all = all;
    s->base = base;
    s->wish = &all->wish;
    s->place = from <= FROM_AZURE ? &all->wish.choice->places[from] : NULL;
    s->is_found = wanted == WANTED_ASKED;
    return s->ops->start(s);
}

int notices_new(struct event_base *base, const struct notice_wish *wish, notice_fn *on_notice,
                void *ctx, struct notices **ret)
{
    struct notices *all = calloc(1, sizeof *all);
    if (!all) {
        return TFE_ENOMEM;
    }
    all->wish = *wish;
    all->on_notice = on_notice;
    all->ctx = ctx;
    all->quiet = evtimer_new(base, on_quiet, all);
    int rc = all->quiet ? 0 : TFE_ENOMEM;
    for (size_t i = 0; i < FROM__COUNT; i++) {
        all->sources[i].ops = table[i];
    }
    for (size_t i = 0; i < FROM__COUNT && rc == 0; i++) {
        rc = start(all, base, (enum notice_from)i);
    }
    if (rc) {
        notices_free(all);
        return rc;
    }
    *ret = all;
    return 0;
}

void notices_free(struct notices *all)
{
    if (!all) {
        return;
    }
    for (size_t i = 0; i < FROM__COUNT; i++) {
        struct source *s = &all->sources[i];
        if (s->own) {
            s->ops->stop(s);
            free(s->own);
        }
    }
    if (all->quiet) {
        event_free(all->quiet);
    }
    free(all);
}
