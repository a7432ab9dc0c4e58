/* agent/pool/toolbox.c: implementation of toolbox.h. */
#include "agent/pool/toolbox.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/private_dir.h"
#include "agent/trainer/standby.h"
#include "common/base/fd.h"
#include "common/base/heap.h"

struct toolbox {
    struct private_dir dir;
    int tools; /* descriptor of the shared directory inside dir */
    char path[PATH_MAX];
    char loader[PATH_MAX], program[PATH_MAX];
    struct tfe_reason reason; /* error of a copy, or "" if none so far */
};

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int copy_bytes(int from, int to)
{
    ssize_t n = 1;
    while (n > 0) {
        n = sendfile(to, from, NULL, 1 << 30);
    }
    return n == 0 ? 0 : TFE_ESYS;
}

static void add_file(struct toolbox *t, const char *path, const char *name)
{
    if (t->reason.text[0]) {
        return;
    }
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int to = openat(t->tools, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    if (from < 0 || to < 0 || copy_bytes(from, to) != 0 || fchmod(to, 0755) != 0) {
        reason_errno(&t->reason, "copy %.300s", path);
    }
    fd_close(&from);
    fd_close(&to);
}

static void add_text(struct toolbox *t, const char *name, const char *text)
{
    int to = openat(t->tools, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    const ssize_t n = (ssize_t)strlen(text);
    if (to < 0 || write(to, text, (size_t)n) != n || fchmod(to, 0644) != 0) {
        reason_errno(&t->reason, "write %s", name);
    }
    fd_close(&to);
}

/* Copies a loaded library. The program itself has an empty name, and the vDSO has no file. */
static int add_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct toolbox *t = ctx;
    if (info->dlpi_name[0] == '/') {
        add_file(t, info->dlpi_name, name_of(info->dlpi_name));
    }
    if (info->dlpi_addr == getauxval(AT_BASE) && info->dlpi_addr != 0) {
        (void)snprintf(t->loader, sizeof t->loader, "%s", name_of(info->dlpi_name));
    }
    return 0;
}

static void add_scripts(struct toolbox *t)
{
    char path[PATH_MAX];
    if (standby_bootstrap(path)) {
        add_file(t, path, name_of(path));
        (void)snprintf(strrchr(path, '/'), sizeof "/tfe_hooks.py", "/tfe_hooks.py");
        add_file(t, path, name_of(path));
    }
}

int toolbox_new(struct toolbox **ret, struct tfe_reason *reason)
{
    char program[PATH_MAX];
    struct toolbox *t = must_alloc(sizeof *t);
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    int rc = private_dir_new(NULL, &t->dir, reason);
    if (rc) {
        free(t);
        return rc;
    }
    (void)snprintf(t->path, sizeof t->path, "%s/%s", t->dir.path, PRIVATE_DIR_TMP);
    (void)snprintf(t->program, sizeof t->program, "%s", name_of(program));
    t->tools = mkdirat(t->dir.fd, PRIVATE_DIR_TMP, 0700) == 0
                   ? openat(t->dir.fd, PRIVATE_DIR_TMP, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                   : -1;
    if (t->tools < 0 || fchmod(t->tools, 0755) != 0) {
        reason_errno(&t->reason, "make a directory in %s", t->dir.path);
    } else {
        add_file(t, program, t->program);
        (void)dl_iterate_phdr(add_object, t);
        add_scripts(t);
        add_text(t, TOOLBOX_PRELOAD, "");
        add_text(t, TOOLBOX_NSSWITCH, "passwd: files\ngroup: files\nhosts: files dns\n");
    }
    if (!t->reason.text[0] && !t->loader[0]) {
        reason_set(&t->reason, "find the dynamic loader of this program");
    }
    if (t->reason.text[0]) {
        *reason = t->reason;
        reason_prefix(reason, "--runtime");
        toolbox_free(t);
        return TFE_ESYS;
    }
    *ret = t;
    return 0;
}

void toolbox_free(struct toolbox *t)
{
    if (t) {
        fd_close(&t->tools);
        private_dir_done(&t->dir);
        free(t);
    }
}

const char *toolbox_path(const struct toolbox *t)
{
    return t->path;
}

const char *toolbox_loader(const struct toolbox *t)
{
    return t->loader;
}

const char *toolbox_program(const struct toolbox *t)
{
    return t->program;
}
