/* common/cli/suggest.c: edit distance between words. */
#include "common/cli/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Maximum length of compared words. */
#define WORD_MAX 63

static char plain(char c)
{
    return c == '_' ? '-' : c;
}

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the edit distance, with a swap of neighbours counted as one mistake (optimal string
 * alignment): "--prot" is at distance 1 from "--port". */
static size_t edit_distance(const char *a, size_t a_n, const char *b, size_t b_n)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0];
    size_t *above = rows[1];
    size_t *row = rows[2];
    for (size_t j = 0; j <= b_n; j++) {
        above[j] = j;
        before[j] = 0;
    }
    for (size_t i = 1; i <= a_n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_n; j++) {
            const bool same = plain(a[i - 1]) == plain(b[j - 1]);
            size_t best = min_of(above[j] + 1, row[j - 1] + 1);
            best = min_of(best, above[j - 1] + (same ? 0u : 1u));
            if (i > 1 && j > 1 && plain(a[i - 1]) == plain(b[j - 2]) &&
                plain(a[i - 2]) == plain(b[j - 1])) {
                best = min_of(best, before[j - 2] + 1);
            }
            row[j] = best;
        }
        size_t *const spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[b_n];
}

/* Returns the distance of a word; a prefix of a longer word counts as one mistake. */
static size_t word_distance(const char *typed, size_t n, const char *word)
{
    const size_t word_n = strlen(word);
    if (word_n > WORD_MAX) {
        return SIZE_MAX;
    }
    size_t same = 0;
    while (same < n && same < word_n && plain(typed[same]) == plain(word[same])) {
        same++;
    }
    if (n >= 2 && same == n && n < word_n) {
        return 1;
    }
    return edit_distance(typed, n, word, word_n);
}

void suggest_init(struct suggestion *suggestion, const char *typed, size_t n)
{
    /* A word at a distance above a third of its length is a different word. */
    const size_t max_distance = n / 3 > 1 ? n / 3 : 1;
    *suggestion = (struct suggestion){.typed = typed, .n = n, .distance = max_distance + 1};
}

void suggest_try(struct suggestion *suggestion, const char *word)
{
    if (suggestion->n == 0 || suggestion->n > WORD_MAX) {
        return;
    }
    const size_t distance = word_distance(suggestion->typed, suggestion->n, word);
    if (distance < suggestion->distance) {
        suggestion->distance = distance;
        suggestion->word = word;
    }
}
