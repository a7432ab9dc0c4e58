/* common/base/wheel.c: hierarchical timing wheel.
 *
 * A timer is stored on the level of the highest 6-bit digit in which its due time differs from the
 * wheel's time, in the slot named by that digit. So each timer of a lower level is due before any
 * of a higher one, and the slots of a level are in order: the next slot to process is the first
 * used slot of the lowest used level. When the wheel's time reaches the start of a slot, its timers
 * are inserted again: they are due, or move to a lower level, or were postponed meanwhile. A
 * postponed timer stays in its slot until then, so renewing a lease touches no other timer. */
#include "common/base/wheel.h"

#include <string.h>

static void list_init(struct wheel_timer *head)
{
    head->next = head;
    head->prev = head;
}

static bool list_is_empty(const struct wheel_timer *head)
{
    return head->next == head;
}

static void list_append(struct wheel_timer *head, struct wheel_timer *timer)
{
    timer->prev = head->prev;
    timer->next = head;
    head->prev->next = timer;
    head->prev = timer;
}

void wheel_init(struct wheel *wheel, struct tfe_mono now)
{
    memset(wheel, 0, sizeof(*wheel));
    wheel->now_ms = now.ms;
    for (int level = 0; level < WHEEL_LEVELS; level++) {
        for (int slot = 0; slot < WHEEL_SLOTS; slot++) {
            list_init(&wheel->slots[level][slot]);
        }
    }
    list_init(&wheel->due);
}

static void insert(struct wheel *wheel, struct wheel_timer *timer)
{
    if (timer->due.ms <= wheel->now_ms) {
        timer->level = WHEEL_LEVELS;
        list_append(&wheel->due, timer);
        return;
    }
    uint64_t differ = (uint64_t)timer->due.ms ^ (uint64_t)wheel->now_ms;
    int level = (63 - __builtin_clzll(differ)) / WHEEL_BITS;
    unsigned slot = (unsigned)((uint64_t)timer->due.ms >> (level * WHEEL_BITS)) & (WHEEL_SLOTS - 1);
    timer->level = (uint8_t)level;
    timer->slot = (uint8_t)slot;
    list_append(&wheel->slots[level][slot], timer);
    wheel->used[level] |= UINT64_C(1) << slot;
}

void wheel_cancel(struct wheel *wheel, struct wheel_timer *timer)
{
    if (!timer->next) {
        return;
    }
    timer->prev->next = timer->next;
    timer->next->prev = timer->prev;
    timer->next = NULL;
    timer->prev = NULL;
    if (timer->level < WHEEL_LEVELS && list_is_empty(&wheel->slots[timer->level][timer->slot])) {
        wheel->used[timer->level] &= ~(UINT64_C(1) << timer->slot);
    }
}

void wheel_set(struct wheel *wheel, struct wheel_timer *timer, struct tfe_mono due)
{
    if (tfe_mono_is_never(due)) {
        wheel_cancel(wheel, timer);
    } else if (timer->next && timer->level < WHEEL_LEVELS && timer->due.ms <= due.ms) {
        timer->due = due; /* stored again by the new time when its slot is reached */
    } else {
        wheel_cancel(wheel, timer);
        timer->due = due;
        insert(wheel, timer);
    }
}

/* Finds the first used slot and its start time. Returns false if no slot is used. */
static bool first_slot(const struct wheel *wheel, int *ret_level, unsigned *ret_slot,
                       int64_t *ret_start)
{
    for (int level = 0; level < WHEEL_LEVELS; level++) {
        if (wheel->used[level]) {
            unsigned slot = (unsigned)__builtin_ctzll(wheel->used[level]);
            int shift = level * WHEEL_BITS;
            uint64_t window = level == WHEEL_LEVELS - 1 ? 0 : ~UINT64_C(0) << (shift + WHEEL_BITS);
            *ret_level = level;
            *ret_slot = slot;
            *ret_start = (int64_t)(((uint64_t)wheel->now_ms & window) | ((uint64_t)slot << shift));
            return true;
        }
    }
    return false;
}

struct wheel_timer *wheel_peek(struct wheel *wheel, struct tfe_mono now)
{
    while (list_is_empty(&wheel->due)) {
        int level;
        unsigned slot;
        int64_t start;
        if (!first_slot(wheel, &level, &slot, &start) || start > now.ms) {
            if (now.ms > wheel->now_ms) {
                wheel->now_ms = now.ms; /* passes no slot, so every timer stays on its level */
            }
            return NULL;
        }
        if (start > wheel->now_ms) {
            wheel->now_ms = start;
        }
        struct wheel_timer *head = &wheel->slots[level][slot];
        wheel->used[level] &= ~(UINT64_C(1) << slot);
        struct wheel_timer *timer = head->next;
        list_init(head);
        while (timer != head) {
            struct wheel_timer *next = timer->next;
            insert(wheel, timer);
            timer = next;
        }
    }
    return wheel->due.next;
}

struct tfe_mono wheel_next(const struct wheel *wheel)
{
    int level;
    unsigned slot;
    int64_t start;
    if (!list_is_empty(&wheel->due)) {
        return (struct tfe_mono){.ms = wheel->now_ms};
    }
    if (!first_slot(wheel, &level, &slot, &start)) {
        return TFE_MONO_NEVER;
    }
    return (struct tfe_mono){.ms = start};
}
