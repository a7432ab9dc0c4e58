/* tests/unit/agent_core/dump.c: implementation of dump.h. */
#include "tests/unit/agent_core/dump.h"

static void dump_table(FILE *f, struct table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        fprintf(f, " %u=%s:%u", t->rows[i].rank, t->hosts + t->host_at[i], t->rows[i].port);
    }
    fputc('\n', f);
    t->rows = NULL;
    t->hosts = NULL;
    t->host_at = NULL;
    t->cap_rows = t->cap_hosts = t->cap_host_at = 0;
}

struct dump *dump_agent(const struct agent *a)
{
    struct dump *d = calloc(1, sizeof(*d));
    size_t n = 0;
    FILE *f = d ? open_memstream(&d->tables, &n) : NULL;
    if (!f) {
        abort();
    }
    memcpy(&d->a, a, sizeof(*a));
    dump_table(f, &d->a.tables.held);
    dump_table(f, &d->a.tables.next);
    d->a.step.now.ms = 0;
    d->a.step.n_actions = 0;
    memset(d->a.step.actions, 0, sizeof(d->a.step.actions));
    if (fclose(f)) {
        abort();
    }
    return d;
}

static void dump_free(struct dump *d)
{
    free(d->tables);
    free(d);
}

const char *dump_difference(struct dump *one, struct dump *two)
{
    static const struct {
        const char *part;
        size_t end;
    } parts[] = {{"step", offsetof(struct agent, link)},
                 {"link", offsetof(struct agent, preparation)},
                 {"preparation", offsetof(struct agent, tables)},
                 {"tables", offsetof(struct agent, work)},
                 {"work", offsetof(struct agent, progress)},
                 {"progress", offsetof(struct agent, notices)},
                 {"notices", offsetof(struct agent, processes)},
                 {"processes", offsetof(struct agent, mem)},
                 {"dispatch", sizeof(struct agent)}};
    const char *found = strcmp(one->tables, two->tables) != 0 ? "rows" : NULL;
    size_t start = 0;
    for (size_t i = 0; !found && i < sizeof(parts) / sizeof(parts[0]); i++) {
        bool is_same = memcmp((const char *)&one->a + start, (const char *)&two->a + start,
                              parts[i].end - start) == 0;
        found = is_same ? NULL : parts[i].part;
        start = parts[i].end;
    }
    dump_free(one);
    dump_free(two);
    return found;
}
