/* agent/preemption/notice_selection.c: implementation of notice_selection.h. */
#include "agent/preemption/notice_selection.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/base/fd.h"
#include "common/channel/endpoint.h"

static const char *const clouds[] = {
    [FROM_AWS] = "aws", [FROM_GCE] = "gce", [FROM_AZURE] = "azure"};
#define CLOUDS (sizeof clouds / sizeof clouds[0])

/* Address of the metadata service, the same in all three clouds. */
#define METADATA_PLACE "http://169.254.169.254:80"

static int refuse(struct tfe_reason *reason, const char *text, size_t n)
{
    reason_set(reason,
               "expected auto, none, aws, gce, azure, file:PATH or cmd:COMMAND, found \"%.*s\"",
               (int)n, text);
    return TFE_EINVAL;
}

/* Parses one element of the list. */
static int parse_element(struct notice_selection *c, const char *text, size_t n,
                         struct tfe_reason *reason)
{
    for (size_t i = 0; i < CLOUDS; i++) {
        if (n == strlen(clouds[i]) && memcmp(text, clouds[i], n) == 0) {
            c->modes[i] = SOURCE_ON;
            return 0;
        }
    }
    if (n == 4 && memcmp(text, "auto", n) == 0) {
        for (size_t i = 0; i < CLOUDS; i++) {
            c->modes[i] = c->modes[i] == SOURCE_OFF ? SOURCE_AUTO : c->modes[i];
        }
        return 0;
    }
    if (n > 4 && memcmp(text, "cmd:", 4) == 0) {
        c->modes[FROM_COMMAND] = SOURCE_ON;
        c->command = text + 4;
        return 0;
    }
    if (n <= 5 || memcmp(text, "file:", 5) != 0) {
        return refuse(reason, text, n);
    }
    if (c->modes[FROM_FILE] != SOURCE_OFF || n - 5 > NOTICE_PATH_MAX) {
        reason_set(reason, c->modes[FROM_FILE] ? "file: is given more than once"
                                               : "the path after file: is too long");
        return TFE_EINVAL;
    }
    c->modes[FROM_FILE] = SOURCE_ON;
    memcpy(c->file, text + 5, n - 5);
    c->file[n - 5] = '\0';
    return 0;
}

int notice_selection_parse(void *ret, const char *text, struct tfe_reason *reason)
{
    struct notice_selection *choice = ret;
    struct notice_selection made = {.signo = choice->signo};
    made.modes[FROM_SIGNAL] = choice->modes[FROM_SIGNAL];
    memcpy(made.place, choice->place, sizeof made.place);
    if (strcmp(text, "none") != 0) {
        for (const char *at = text;;) {
            const bool is_last = strncmp(at, "cmd:", 4) == 0 || !strchr(at, ',');
            const size_t n = is_last ? strlen(at) : strcspn(at, ",");
            if (parse_element(&made, at, n, reason)) {
                return TFE_EINVAL;
            }
            if (is_last) {
                break;
            }
            at += n + 1;
        }
    }
    *choice = made;
    return 0;
}

int notice_selection_signal(void *ret, const char *text, struct tfe_reason *reason)
{
    struct notice_selection *choice = ret;
    static const struct {
        const char *name;
        int number;
    } legal[] = {{"HUP", SIGHUP},   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
                 {"USR2", SIGUSR2}, {"ALRM", SIGALRM}, {"CONT", SIGCONT},
                 {"URG", SIGURG},   {"XCPU", SIGXCPU}, {"PWR", SIGPWR}};
    const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++) {
        if (strcmp(name, legal[i].name) == 0) {
            choice->modes[FROM_SIGNAL] = SOURCE_ON;
            choice->signo = legal[i].number;
            return 0;
        }
    }
    reason_set(reason, "expected HUP, QUIT, USR1, USR2, ALRM, CONT, URG, XCPU or PWR, found \"%s\"",
               text);
    return TFE_EINVAL;
}

int notice_selection_place(void *ret, const char *text, struct tfe_reason *reason)
{
    static const char scheme[] = "http://";
    struct notice_selection *choice = ret;
    char rest[NOTICE_PLACE_MAX + 1];
    char host[TFE_HOST_MAX + 1];
    uint16_t port = 80;
    const bool has_scheme = strncmp(text, scheme, sizeof scheme - 1) == 0;
    const char *at = text + (has_scheme ? sizeof scheme - 1 : 0);
    const size_t n = strcspn(at, "/");
    snprintf(rest, sizeof rest, "%.*s", (int)n, at);
    if (n >= sizeof rest || strlen(at + n) > 1 || endpoint_parse(rest, host, sizeof host, &port)) {
        reason_set(reason, "expected http://HOST[:PORT], found \"%s\"", text);
        return TFE_EINVAL;
    }
    snprintf(choice->place, sizeof choice->place,
             strchr(host, ':') ? "http://[%s]:%u" : "http://%s:%u", host, (unsigned)port);
    return 0;
}

/* Beginning of a file's text, compared without regard to case. */
static const struct {
    enum notice_from cloud;
    const char *file;
    const char *text;
} marks[] = {
    {FROM_AWS, "class/dmi/id/sys_vendor", "Amazon EC2"},
    {FROM_AWS, "class/dmi/id/board_asset_tag", "i-"},
    {FROM_AWS, "hypervisor/uuid", "ec2"}, /* Xen */
    {FROM_GCE, "class/dmi/id/product_name", "Google"},
    /* The vendor is that of every Hyper-V; the tag is specific to Azure. */
    {FROM_AZURE, "class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"},
};

/* Detects the cloud from the files below sys by the marks in firmware and hypervisor that the
 * clouds document. Returns FROM__COUNT if there is no known mark. */
static enum notice_from cloud_find(const char *sys)
{
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        char path[256];
        char text[64];
        snprintf(path, sizeof path, "%s/%s", sys, marks[i].file);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
        fd_close(&fd);
        if (n >= (ssize_t)strlen(marks[i].text) &&
            strncasecmp(text, marks[i].text, strlen(marks[i].text)) == 0) {
            return marks[i].cloud;
        }
    }
    return FROM__COUNT;
}

void notice_selection_complete(struct notice_selection *choice, const char *sys)
{
    if (choice->place[0]) {
        return;
    }
    const enum notice_from here = cloud_find(sys);
    memcpy(choice->place, METADATA_PLACE, sizeof METADATA_PLACE);
    for (size_t i = 0; i < CLOUDS; i++) {
        if (choice->modes[i] == SOURCE_AUTO) {
            choice->modes[i] = i == here ? SOURCE_ON : SOURCE_OFF;
        }
    }
}
