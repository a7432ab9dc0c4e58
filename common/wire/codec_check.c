/* common/wire/codec_check.c: which values a message may hold, sent or received (msg.h,
 * PROTOCOL.md). */
#include <string.h>

#include "common/base/id.h"
#include "common/wire/codec_parts.h"

/* Every trainer of every node. */
#define WORLD_MAX (MSG_NODES_MAX * MSG_NPROC_MAX)
#define CODE_MAX 255u   /* of an exit status */
#define SIGNAL_MAX 128u /* no system numbers them higher */
#define STATE_MAX 64u   /* a word */
#define HOST_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]%"

/* --- kinds of value --------------------------------------------------------------------------- */

static bool is_within(const char *text, size_t max)
{
    return text && strnlen(text, max + 1) <= max;
}

/* A text of one line without control characters. */
static bool is_label(const char *text, size_t max)
{
    if (!is_within(text, max)) {
        return false;
    }
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Names and addresses, IPv6 with zone included. Nothing that would need quoting in TF_CONFIG's
 * JSON. */
static bool is_host(const char *text)
{
    return is_within(text, TFE_HOST_MAX) && text[0] != '\0' &&
           text[strspn(text, HOST_CHARACTERS)] == '\0';
}

static bool is_duration(uint32_t ms)
{
    return ms <= MSG_DURATION_MAX_MS;
}

/* A duration that something waits for again and again: 0 would be a busy loop. */
static bool is_period(uint32_t ms)
{
    return ms >= 1 && is_duration(ms);
}

static bool is_wish(uint32_t ms)
{
    return ms == MSG_UNSET || is_duration(ms);
}

static bool is_size(uint32_t min, uint32_t max, uint32_t nproc)
{
    return min >= 1 && min <= max && max <= MSG_NODES_MAX && nproc >= 1 && nproc <= MSG_NPROC_MAX;
}

static bool is_world(uint32_t world)
{
    return world >= 1 && world <= WORLD_MAX;
}

/* 0 is "none". Kernels give positive 32-bit numbers. */
static bool is_pid_or_none(uint32_t pid)
{
    return pid <= INT32_MAX;
}

static bool is_pid_list(const uint32_t *pids, size_t n)
{
    if (n > MSG_PIDS_MAX || (n && !pids)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (pids[i] == 0 || !is_pid_or_none(pids[i])) {
            return false;
        }
    }
    return true;
}

static bool is_port_list(const uint16_t *ports, size_t n)
{
    if (n < 1 || n > MSG_NPROC_MAX || !ports) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (ports[i] == 0) {
            return false;
        }
    }
    return true;
}

#define IS_ONE_OF(NAME, number, name)                                                              \
    case number:                                                                                   \
        return true;

static bool is_cause(int value)
{
    switch (value) {
        TFE_CAUSES(IS_ONE_OF)
    }
    return false;
}

static bool is_result(int value)
{
    switch (value) {
        TFE_RESULTS(IS_ONE_OF)
    }
    return false;
}

static bool is_refusal(int value)
{
    switch (value) {
        TFE_REFUSALS(IS_ONE_OF)
    }
    return false;
}

static bool is_node_role(int value)
{
    switch (value) {
        TFE_ROLES(IS_ONE_OF)
    }
    return false;
}

static bool is_notice(int value)
{
    switch (value) {
        TFE_NOTICES(IS_ONE_OF)
    }
    return false;
}

static bool is_probe_kind(int value)
{
    switch (value) {
        TFE_PROBE_KINDS(IS_ONE_OF)
    }
    return false;
}

static bool is_probe_result(int value)
{
    switch (value) {
        TFE_PROBE_RESULTS(IS_ONE_OF)
    }
    return false;
}

static bool is_ending(int value)
{
    switch (value) {
        TFE_ENDINGS(IS_ONE_OF)
    }
    return false;
}

/* --- messages of an agent --------------------------------------------------------------------- */

bool codec_check_exited(const struct msg_exited *m)
{
    return m->epoch >= 1 && m->local_rank < MSG_NPROC_MAX && m->code <= CODE_MAX &&
           m->signal <= SIGNAL_MAX && (m->signal == 0 || m->code == 0) &&
           is_within(m->tail, MSG_TAIL_MAX) && is_ending((int)m->end);
}

/* Of a node with so many trainers. */
static bool is_running(const struct msg_running *m, uint32_t nproc)
{
    return m->run >= 1 && is_world(m->world) && m->rank < m->world && m->nodes >= 1 &&
           m->nodes <= MSG_NODES_MAX && m->nodes <= m->world && is_host(m->host) &&
           is_port_list(m->ports, m->n_ports) && m->n_ports == nproc && is_cause((int)m->cause);
}

bool codec_check_join(const struct msg_join *m)
{
    return id_is_valid(m->job) && id_is_valid(m->node) && is_label(m->node_name, TFE_LABEL_MAX) &&
           is_size(m->min_nodes, m->max_nodes, m->nproc) && is_wish(m->gather_ms) &&
           is_wish(m->grow_wait_ms) && is_wish(m->stop_grace_ms) &&
           is_wish(m->elastic_timeout_ms) && is_pid_or_none(m->pid) &&
           (!m->exited || codec_check_exited(m->exited)) &&
           (!m->run_key || id_is_valid(m->run_key)) && is_wish(m->chief_grace_ms) &&
           (!m->running ||
            ((m->running_epoch >= 1 || m->exited) && is_running(m->running, m->nproc)));
}

bool codec_check_renew(const struct msg_renew *m)
{
    (void)m; /* any number */
    return true;
}

bool codec_check_ready(const struct msg_ready *m)
{
    return m->epoch >= 1 && is_host(m->host) && is_port_list(m->ports, m->n_ports);
}

bool codec_check_listening(const struct msg_listening *m)
{
    return m->epoch >= 1;
}

bool codec_check_goodbye(const struct msg_goodbye *m)
{
    (void)m; /* a flag, which a later version may clear */
    return true;
}

bool codec_check_processes(const struct msg_processes *m)
{
    return is_pid_or_none(m->guard_pid) && is_pid_list(m->trainer_pids, m->n_trainer_pids) &&
           is_pid_list(m->standby_pids, m->n_standby_pids);
}

bool codec_check_probed(const struct msg_probed *m)
{
    return is_probe_result((int)m->result);
}

bool codec_check_progress(const struct msg_progress *m)
{
    return m->epoch >= 1;
}

bool codec_check_notice(const struct msg_notice *m)
{
    return is_notice((int)m->kind) && is_wish(m->deadline_ms);
}

/* --- messages of the server ------------------------------------------------------------------- */

bool codec_check_welcome(const struct msg_welcome *m)
{
    return id_is_valid(m->node) && m->run >= 1 && is_period(m->ttl_ms) && is_period(m->fence_ms) &&
           is_period(m->renew_ms) && is_duration(m->spread_ms) && is_duration(m->stop_grace_ms);
}

bool codec_check_renewed(const struct msg_renewed *m)
{
    return is_period(m->ttl_ms) && is_period(m->fence_ms) && is_duration(m->spread_ms);
}

bool codec_check_prepare(const struct msg_prepare *m)
{
    return m->epoch >= 1;
}

bool codec_check_stop(const struct msg_stop *m)
{
    return m->epoch >= 1;
}

bool codec_check_save(const struct msg_save *m)
{
    return m->epoch >= 1 && m->number >= 1 && is_wish(m->within_ms);
}

bool codec_check_row(const struct msg_row *row, uint32_t world)
{
    return row->rank < world && is_host(row->host) && row->port != 0;
}

bool codec_check_table_head(const struct msg_table *m)
{
    return m->epoch >= 1 && is_world(m->world) && (m->n_rows == 0 || m->rows);
}

bool codec_check_table(const struct msg_table *m)
{
    if (!codec_check_table_head(m)) {
        return false;
    }
    for (size_t i = 0; i < m->n_rows; i++) {
        if (!codec_check_row(&m->rows[i], m->world)) {
            return false;
        }
    }
    return true;
}

bool codec_check_start(const struct msg_start *m)
{
    return m->epoch >= 1 && m->run >= 1 && is_world(m->world) && m->rank < m->world &&
           m->nodes >= 1 && m->nodes <= MSG_NODES_MAX && m->nodes <= m->world &&
           is_cause((int)m->cause) && is_duration(m->fence_ms);
}

bool codec_check_noted(const struct msg_noted *m)
{
    return m->epoch >= 1;
}

bool codec_check_lease_ended(const struct msg_lease_ended *m)
{
    (void)m; /* 0: the job has had no epoch yet */
    return true;
}

bool codec_check_probe(const struct msg_probe *m)
{
    return is_probe_kind((int)m->kind) && id_is_valid(m->node) && is_host(m->host) &&
           is_port_list(m->ports, m->n_ports);
}

bool codec_check_finish(const struct msg_finish *m)
{
    return is_result((int)m->result) && m->run >= 1 && is_within(m->sentence, MSG_SENTENCE_MAX);
}

bool codec_check_refused(const struct msg_refused *m)
{
    return is_refusal((int)m->code) && is_within(m->sentence, MSG_SENTENCE_MAX);
}

/* --- ctl and server --------------------------------------------------------------------------- */

bool codec_check_status(const struct msg_status *m)
{
    return !m->job || id_is_valid(m->job);
}

bool codec_check_status_job(const struct msg_status_job *m)
{
    return id_is_valid(m->job) && is_label(m->state, STATE_MAX) &&
           is_size(m->min_nodes, m->max_nodes, m->nproc);
}

bool codec_check_status_node(const struct msg_status_node *m)
{
    return id_is_valid(m->node) && is_label(m->name, TFE_LABEL_MAX) && is_node_role((int)m->role) &&
           (!m->has_rank || m->rank < WORLD_MAX) && (!m->host || is_host(m->host)) &&
           is_pid_or_none(m->pid) && codec_check_processes(&m->processes);
}

bool codec_check_status_end(const struct msg_status_end *m)
{
    (void)m; /* a count */
    return true;
}

/* --- an operator's orders --------------------------------------------------------------------- */

/* Of a node: its id, or its label. */
static bool is_name(const char *text)
{
    return is_label(text, TFE_LABEL_MAX) && text[0] != '\0';
}

bool codec_check_drain(const struct msg_drain *m)
{
    return is_name(m->node) && is_wish(m->within_ms);
}

bool codec_check_evict(const struct msg_evict *m)
{
    return is_name(m->node);
}

bool codec_check_stop_job(const struct msg_stop_job *m)
{
    return id_is_valid(m->job);
}

bool codec_check_backup(const struct msg_backup *m)
{
    return is_label(m->path, MSG_PATH_MAX) && m->path[0] == '/';
}

/* --- the ledger ------------------------------------------------------------------------------- */

bool codec_check_epochs(const struct msg_epochs *m)
{
    return id_is_valid(m->job);
}

bool codec_check_epoch_row(const struct msg_epoch_row *m)
{
    bool is_sound = m->run >= 1 && m->epoch >= 1 && is_cause((int)m->cause) &&
                    is_label(m->blamed, TFE_LABEL_MAX) && m->members <= MSG_NODES_MAX;
    for (int i = 0; is_sound && i < EPOCH__TIMES; i++) {
        is_sound = m->at[i].ms >= 0;
    }
    return is_sound;
}

bool codec_check_done(const struct msg_done *m)
{
    (void)m;
    return true;
}
