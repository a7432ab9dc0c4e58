/* agent/pool/toolbox.c: implementation of toolbox.h. */
#include "agent/pool/toolbox.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
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

/* Makes the loader's copy read no ld.so.preload, which would be the image's. No option of the
 * loader does that, and a file that is mounted over the image's follows the image's links. */
static void ignore_preload(struct toolbox *t)
{
    static const char name[] = "/etc/ld.so.preload";
    struct stat st;
    char *text = MAP_FAILED;
    int fd = t->reason.text[0] ? -1 : openat(t->tools, t->loader, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0) {
        text = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (text != MAP_FAILED) {
        for (char *at = text;
             (at = memmem(at, (size_t)(text + st.st_size - at), name, sizeof name));) {
            *at = '\0'; /* no file has the empty name */
        }
        (void)munmap(text, (size_t)st.st_size);
    } else if (!t->reason.text[0]) {
        reason_errno(&t->reason, "change %s", t->loader);
    }
    fd_close(&fd);
}

/* Adds the libraries that an older C library loads when it resolves a name. */
static void add_name_services(struct toolbox *t, const char *libc)
{
    static const char *const names[] = {"libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof path, "%.*s%s", (int)(name_of(libc) - libc), libc, names[i]);
        if (access(path, R_OK) == 0) {
            add_file(t, path, names[i]);
        }
    }
}

/* Copies a loaded library. The program itself has an empty name, and the vDSO has no file. */
static int add_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct toolbox *t = ctx;
    if (info->dlpi_name[0] == '/') {
        add_file(t, info->dlpi_name, name_of(info->dlpi_name));
    }
    if (strncmp(name_of(info->dlpi_name), "libc.so", sizeof "libc.so" - 1) == 0) {
        add_name_services(t, info->dlpi_name);
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
        (void)snprintf(strrchr(path, '/'), sizeof "/tfe_artifacts.py", "/tfe_artifacts.py");
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
    }
    if (!t->reason.text[0] && !t->loader[0]) {
        reason_set(&t->reason, "find the dynamic loader of this program");
    }
    ignore_preload(t);
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
