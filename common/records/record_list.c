/* common/records/record_list.c: a growing list of copied records. */
#include "common/records/record_list.h"

#include <stdlib.h>

#include "common/base/heap.h"

int row_list_add(struct row_list *list, const struct row_kind *kind, const void *row)
{
    if (mem_reserve(&heap_mem, &list->v, &list->cap, list->n + 1, sizeof(*list->v)) != 0) {
        return TFE_ENOMEM;
    }
    void *copy = row_copy(kind, row);
    if (!copy) {
        return TFE_ENOMEM;
    }
    list->v[list->n++] = (struct row){.kind = kind, .at = copy};
    return 0;
}

const void *row_list_head(const struct row_list *list, const struct row_kind *kind)
{
    return list->n > 0 && list->v[0].kind == kind ? list->v[0].at : NULL;
}

void row_list_done(struct row_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->v[i].at);
    }
    free(list->v);
    *list = (struct row_list){.v = NULL};
}
