/* agent/guard/guard_hand.c: standbys: a trainer's start goes to a process that has imported its
 * modules already. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/guard_spawn.h"
#include "agent/guard/guard_state.h"

bool hand_may_renice(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    memset(data, 0, sizeof data);
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[CAP_TO_INDEX(CAP_SYS_NICE)].effective & CAP_TO_MASK(CAP_SYS_NICE));
}

/* Back to the priorities of a process that never was a standby. Both kinds belong to threads, and
 * an import may have started some. */
static void priorities_restore(const struct guard *g, pid_t pid)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    int own = getpriority(PRIO_PROCESS, 0);
    DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        int thread = atoi(entry->d_name);
        if (thread <= 0) {
            continue;
        }
        syscall(SYS_ioprio_set, GUARD_IOPRIO_WHO_PROCESS, thread, 0);
        if (g->may_renice) {
            setpriority(PRIO_PROCESS, (id_t)thread, own);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* To the bootstrap: how the block is to be read, with the order's descriptors. */
static bool hand_send(int control, const struct guard_order *order, const int fds[GUARD_FDS])
{
    struct guard_hand_over words = {.block_bytes = order->block_bytes,
                                    .n_args = order->n_args,
                                    .n_env = order->n_env,
                                    .has_directory = order->has_directory};
    union {
        char bytes[CMSG_SPACE(GUARD_FDS * sizeof(int))];
        struct cmsghdr align;
    } rights;
    memset(&rights, 0, sizeof rights);
    struct iovec part = {.iov_base = &words, .iov_len = sizeof words};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = rights.bytes,
                         .msg_controllen = sizeof rights.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(GUARD_FDS * sizeof(int));
    memcpy(CMSG_DATA(head), fds, GUARD_FDS * sizeof(int));
    return sendmsg(control, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof words;
}

void hand_close(struct hand *hand)
{
    for (size_t i = 0; hand->is_open && i < GUARD_FDS; i++) {
        if (hand->fds[i] >= 0) {
            close(hand->fds[i]);
        }
    }
    hand->is_open = false;
}

/* Keeps what was handed over until it is taken. A descriptor that cannot be kept only means that
 * there will be no second try. */
static void hand_keep(struct hand *hand, const struct guard_order *order, const int fds[GUARD_FDS])
{
    bool whole = true;
    hand->is_open = true;
    hand->order = *order;
    for (size_t i = 0; i < GUARD_FDS; i++) {
        hand->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        whole = whole && hand->fds[i] >= 0;
    }
    if (!whole) {
        hand_close(hand);
    }
}

void hand_over(struct guard *g, struct slot *to, struct slot *from, const struct guard_order *order,
               const int fds[GUARD_FDS])
{
    if (from->is_standby && slot_has_process(from)) {
        hand_listen(from); /* it may just have said that it cannot */
    }
    if (!from->is_standby || !slot_has_process(from) || from->control < 0 || from->owes_cold ||
        !hand_send(from->control, order, fds)) {
        slot_spawn(g, to, order, fds);
        return;
    }
    *to = *from;
    to->is_standby = false;
    to->owes_warm = false;
    to->owes_pid = to->state == SLOT_RUNNING;
    hand_keep(&to->hand, order, fds);
    /* All it owned is the other slot's now. */
    from->control = -1;
    from->report = -1;
    from->group = GUARD_NO_GROUP;
    slot_reset(g, from);
    priorities_restore(g, to->pid);
}

void hand_listen(struct slot *slot)
{
    while (slot->control >= 0) {
        char words[1 + GUARD_TEXT_MAX];
        ssize_t n = recv(slot->control, words, sizeof words, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n < 0 && errno == ECONNRESET) {
            continue; /* it ended with something unread; what it had said before comes next */
        }
        if (n <= 0) {
            close(slot->control);
            slot->control = -1;
        } else if (words[0] == GUARD_SAYS_WARM) {
            slot->owes_warm = slot->is_standby;
        } else if (words[0] == GUARD_SAYS_TAKEN) {
            hand_close(&slot->hand);
        } else if (words[0] == GUARD_SAYS_COLD) {
            size_t length = (size_t)n - 1 < GUARD_TEXT_MAX - 1 ? (size_t)n - 1 : GUARD_TEXT_MAX - 1;
            memcpy(slot->why, words + 1, length);
            slot->why[length] = '\0';
            slot->owes_cold = true;
        }
    }
}

bool hand_retry(struct guard *g, struct slot *slot)
{
    if (!slot->hand.is_open || g->killing || g->fence_passed || g->closed) {
        return false;
    }
    struct slot plain = *slot;
    slot->hand.is_open = false; /* it is plain's */
    slot_reset(g, slot);
    slot_spawn(g, slot, &plain.hand.order, plain.hand.fds);
    slot->owes_cold = plain.owes_cold;
    memcpy(slot->why, plain.why, sizeof slot->why);
    hand_close(&plain.hand);
    return true;
}
