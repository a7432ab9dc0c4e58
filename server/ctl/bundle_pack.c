/* server/ctl/bundle_pack.c: packs a directory as a bundle. */
#include "server/ctl/bundle_pack.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/archive/archive.h"
#include "common/base/fd.h"
#include "server/ctl/git.h"

#define READ_BYTES (64u * 1024)

/* --- finding the files --- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

/* Lists a directory that is in no repository: an empty repository elsewhere makes git apply
 * .gitignore. */
static int list_alone(const char *directory, char **ret, size_t *ret_n, struct tfe_reason *reason)
{
    char made[] = "/tmp/tfe-ctl-XXXXXX";
    char place[sizeof(made) + 16];
    char tree[PATH_MAX];
    char *printed;
    size_t n;
    if (!realpath(directory, tree) || !mkdtemp(made)) {
        reason_errno(reason, "make a directory in /tmp for %.200s", directory);
        return TFE_ESYS;
    }
    (void)snprintf(place, sizeof(place), "--git-dir=%s", made);
    const char *const init[] = {"init", "-q", "--bare", "--template=", "--", made, NULL};
    const char *const list[] = {
        "-C", tree, place, "--work-tree=.", "ls-files", "-z", "-o", "--exclude-standard", NULL};
    int rc = git_run(init, &printed, &n, reason);
    if (rc == 0) {
        free(printed);
        rc = git_run(list, ret, ret_n, reason);
    }
    (void)nftw(made, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return rc;
}

/* Sets *ret to the names of the files, each NUL-terminated. */
static int list_files(const char *directory, char **ret, size_t *ret_n, struct tfe_reason *reason)
{
    const char *const request[] = {"-C", directory, "rev-parse", "--is-inside-work-tree", NULL};
    const char *const list[] = {"-C", directory, "ls-files",           "-z",
                                "-c", "-o",      "--exclude-standard", NULL};
    char *printed;
    size_t n;
    int rc = git_run(request, &printed, &n, reason);
    if (rc == 0) {
        const bool is_inside = strcmp(printed, "true\n") == 0;
        free(printed);
        return is_inside ? git_run(list, ret, ret_n, reason)
                         : list_alone(directory, ret, ret_n, reason);
    }
    return rc == TFE_ESYS && access(directory, X_OK) == 0 && !strstr(reason->text, "run git") &&
                   !strstr(reason->text, "safe.directory")
               ? list_alone(directory, ret, ret_n, reason)
               : rc;
}

/* A file of the bundle: its name there and its path, both relative to the directory. */
struct entry {
    char *name;
    char *path;
};

struct entries {
    const char *directory;
    char root[PATH_MAX]; /* real path of the directory */
    const char *listed;  /* output of git, n_listed bytes: NUL-terminated names */
    size_t n_listed;
    struct entry *v;
    size_t n, buf;
};

static void entries_free(struct entries *e)
{
    for (size_t i = 0; i < e->n; i++) {
        free(e->v[i].name);
        free(e->v[i].path);
    }
    free(e->v);
}

static int no_memory(struct tfe_reason *reason)
{
    reason_set(reason, "out of memory");
    return TFE_ENOMEM;
}

/* Adds an entry; takes ownership of both texts, also on error. */
static int add_entry(struct entries *e, char *name, char *path, struct tfe_reason *reason)
{
    if (name && path && e->n == e->buf) {
        const size_t buf = e->buf > 0 ? 2 * e->buf : 256;
        struct entry *v = reallocarray(e->v, buf, sizeof(*v));
        e->v = v ? v : e->v;
        e->buf = v ? buf : e->buf;
    }
    if (!name || !path || e->n == e->buf) {
        free(name);
        free(path);
        return no_memory(reason);
    }
    e->v[e->n++] = (struct entry){.name = name, .path = path};
    return 0;
}

/* Resolves the link at name. Sets *ret to its target below the directory, to be freed by the
 * caller. Returns TFE_EINVAL if the target is outside of the directory or missing. */
static int follow(const struct entries *e, const char *name, char **ret, struct tfe_reason *reason)
{
    const size_t n = strlen(e->root);
    char real[PATH_MAX];
    char *path;
    if (asprintf(&path, "%s/%s", e->root, name) < 0) {
        return no_memory(reason);
    }
    const char *found = realpath(path, real);
    free(path);
    if (!found) {
        reason_set(reason, "cannot pack %.300s: the link's target does not exist", name);
        return TFE_EINVAL;
    }
    const char *below = real + n + (n > 1);
    if (strncmp(real, e->root, n) != 0 || (real[n] != '/' && n > 1) ||
        (strncmp(below, ".git", 4) == 0 && (below[4] == '/' || below[4] == '\0'))) {
        reason_set(reason,
                   "cannot pack %.300s: it links to the directory itself, outside of it, or into "
                   ".git; only links inside the directory are followed (exclude it in .gitignore)",
                   name);
        return TFE_EINVAL;
    }
    *ret = strdup(below);
    return *ret ? 0 : no_memory(reason);
}

/* Opens the parent directory of path without following a link, and sets *ret_leaf to the last part
 * of path. Returns -1 if there is no such directory. git lists a tracked file also if a link has
 * replaced one of its parents: whoever wrote the index chose that name, and the link may lead to
 * any file of the user. */
static int open_parent(int above, const char *path, const char **ret_leaf)
{
    int at = fcntl(above, F_DUPFD_CLOEXEC, 0);
    for (const char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        char part[ARCHIVE_NAME_MAX + 1];
        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        int next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        fd_close(&at);
        at = next;
    }
    *ret_leaf = path;
    return at;
}

static bool is_link(int above, const char *name)
{
    struct stat st;
    return fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* Adds the file at name, or the target of its link, under the name label. If the target is a
 * folder, sets *ret_folder to it, to be freed by the caller, and adds nothing. Adds nothing for a
 * file below a link, which git regards as deleted. */
static int add_file(struct entries *e, int above, char *label, const char *name, char **ret_folder,
                    struct tfe_reason *reason)
{
    struct stat st;
    char *path;
    const char *leaf;
    int parent = open_parent(above, name, &leaf);
    const bool is_there = parent >= 0;
    const bool is_a_link = is_there && is_link(parent, leaf);
    fd_close(&parent);
    *ret_folder = NULL;
    if (!is_there) {
        free(label);
        return 0;
    }
    if (!is_a_link) {
        return add_entry(e, label, strdup(name), reason);
    }
    int rc = follow(e, name, &path, reason);
    if (rc) {
        free(label);
        return rc;
    }
    if (fstatat(above, *path != '\0' ? path : ".", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(st.st_mode)) {
        *ret_folder = path;
        free(label);
        return 0;
    }
    return add_entry(e, label, path, reason);
}

/* Adds all files that git lists in the folder, as if it were at name. */
static int add_folder(struct entries *e, int above, const char *name, const char *folder,
                      struct tfe_reason *reason)
{
    const size_t n = strlen(folder);
    int rc = 0;
    for (size_t at = 0; at < e->n_listed && rc == 0; at += strlen(e->listed + at) + 1) {
        const char *one = e->listed + at;
        char *label = NULL;
        char *inner = NULL;
        if (n > 0 && (strncmp(one, folder, n) != 0 || one[n] != '/')) {
            continue;
        }
        if (asprintf(&label, "%s/%s", name, one + n + (n > 0)) < 0) {
            return no_memory(reason);
        }
        rc = add_file(e, above, label, one, &inner, reason);
        if (inner) {
            reason_set(reason,
                       "cannot pack %.150s: the linked directory contains %.150s, another link to "
                       "a directory; nested links are not followed",
                       name, one);
            rc = TFE_EINVAL;
        }
        free(inner);
    }
    return rc;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* Adds all files, sorted by name. above is the descriptor of the directory. */
static int find_entries(struct entries *e, int above, struct tfe_reason *reason)
{
    int rc = 0;
    if (!realpath(e->directory, e->root)) {
        reason_errno(reason, "find %.300s", e->directory);
        return TFE_ESYS;
    }
    for (size_t at = 0; at < e->n_listed && rc == 0; at += strlen(e->listed + at) + 1) {
        const char *name = e->listed + at;
        char *folder;
        rc = add_file(e, above, strdup(name), name, &folder, reason);
        if (folder) {
            rc = add_folder(e, above, name, folder, reason);
            free(folder);
        }
    }
    if (rc == 0 && e->n > 0) {
        qsort(e->v, e->n, sizeof(*e->v), compare_entries);
    }
    return rc;
}

/* --- packing --- */

static int take_packed(void *ctx, const uint8_t *bytes, size_t n, struct tfe_reason *reason)
{
    struct bundle *b = ctx;
    if (n > MSG_BUNDLE_MAX - b->n) {
        reason_set(reason,
                   "cannot pack the files: the bundle would exceed %u MiB (store data elsewhere or "
                   "exclude it in .gitignore)",
                   MSG_BUNDLE_MAX >> 20);
        return TFE_ETOOBIG;
    }
    uint8_t *more = realloc(b->bytes, b->n + n);
    if (!more) {
        return no_memory(reason);
    }
    memcpy(more + b->n, bytes, n);
    b->bytes = more;
    b->n += n;
    return 0;
}

static int pack_bytes(struct archive_packer *p, int fd, const char *name, struct tfe_reason *reason)
{
    uint8_t bytes[READ_BYTES];
    for (;;) {
        const ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n < 0 && errno != EINTR) {
            reason_errno(reason, "read %.300s", name);
            return TFE_ESYS;
        }
        int rc = n > 0 ? archive_pack(p, bytes, (size_t)n, reason) : 0;
        if (rc || n == 0) {
            return rc;
        }
    }
}

/* Packs one file. A file that git still lists but that is gone is skipped. */
static int pack_file(struct archive_packer *p, int above, const struct entry *entry,
                     struct bundle *bundle, struct tfe_reason *reason)
{
    struct stat st;
    const char *leaf;
    int parent = open_parent(above, entry->path, &leaf);
    int fd =
        parent >= 0 ? openat(parent, leaf, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    const int error = errno;
    int rc = 0;
    fd_close(&parent);
    errno = error;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return 0;
    }
    if (fd < 0 && errno != ELOOP && errno != ENXIO) {
        reason_errno(reason, "open %.300s", entry->path);
        return TFE_ESYS;
    }
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        reason_set(reason,
                   "cannot pack %.300s: it is a nested repository or a device; a bundle contains "
                   "regular files only (exclude it in .gitignore)",
                   entry->name);
        rc = TFE_EINVAL;
    }
    rc = rc ? rc
            : archive_pack_file(p, entry->name, (uint64_t)st.st_size, (st.st_mode & S_IXUSR) != 0,
                                reason);
    rc = rc ? rc : pack_bytes(p, fd, entry->name, reason);
    bundle->n_files += rc == 0;
    fd_close(&fd);
    return rc;
}

static int pack_entries(const struct entries *e, int above, struct bundle *bundle,
                        struct tfe_reason *reason)
{
    struct archive_packer *p;
    int rc = archive_packer_new(take_packed, bundle, &p);
    if (rc) {
        return no_memory(reason);
    }
    for (size_t i = 0; i < e->n && rc == 0; i++) {
        if (i == 0 || strcmp(e->v[i - 1].name, e->v[i].name) !=
                          0) { /* a file with a merge conflict is listed three times */
            rc = pack_file(p, above, &e->v[i], bundle, reason);
        }
    }
    if (rc == 0 && bundle->n_files == 0) {
        reason_set(reason,
                   "cannot pack %.300s: it contains no file that .gitignore does not exclude",
                   e->directory);
        rc = TFE_EINVAL;
    }
    rc = rc ? rc : archive_pack_end(p, reason);
    archive_packer_free(p);
    return rc;
}

static int pack_files(const char *directory, const char *listed, size_t n, struct bundle *bundle,
                      struct tfe_reason *reason)
{
    struct entries entries = {.directory = directory, .listed = listed, .n_listed = n};
    int above = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0) {
        reason_errno(reason, "open %.300s", directory);
        return TFE_ESYS;
    }
    int rc = find_entries(&entries, above, reason);
    rc = rc ? rc : pack_entries(&entries, above, bundle, reason);
    entries_free(&entries);
    fd_close(&above);
    return rc;
}

int bundle_pack(const char *directory, struct bundle *ret, struct tfe_reason *reason)
{
    struct bundle bundle = {.bytes = NULL};
    uint8_t digest[MSG_BUNDLE_HEX / 2];
    char *list;
    size_t n;
    int rc = list_files(directory, &list, &n, reason);
    if (rc) {
        reason_prefix(reason, "bundle %.200s", directory);
        return rc;
    }
    rc = pack_files(directory, list, n, &bundle, reason);
    free(list);
    if (rc) {
        reason_prefix(reason, "bundle");
        bundle_done(&bundle);
        return rc;
    }
    (void)crypto_generichash(digest, sizeof(digest), bundle.bytes, bundle.n, NULL, 0);
    (void)sodium_bin2hex(bundle.digest, sizeof(bundle.digest), digest, sizeof(digest));
    *ret = bundle;
    return 0;
}

void bundle_done(struct bundle *bundle)
{
    free(bundle->bytes);
    *bundle = (struct bundle){.bytes = NULL};
}
