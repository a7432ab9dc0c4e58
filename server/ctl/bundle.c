/* server/ctl/bundle.c: a directory as a bundle. */
#include "server/ctl/bundle.h"

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
#include "common/net/fd.h"
#include "server/ctl/git.h"

#define READ_BYTES (64u * 1024)

/* --- which files there are -------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

/* Outside of every repository: one without anything in it, elsewhere, knows what .gitignore means.
 */
static int list_alone(const char *directory, char **ret, size_t *ret_n, struct tfe_why *why)
{
    char made[] = "/tmp/tfe-ctl-XXXXXX";
    char place[sizeof(made) + 16];
    char tree[PATH_MAX];
    char *printed;
    size_t n;
    if (!realpath(directory, tree) || !mkdtemp(made)) {
        why_errno(why, "make a directory in /tmp for %.200s", directory);
        return TFE_ESYS;
    }
    (void)snprintf(place, sizeof(place), "--git-dir=%s", made);
    const char *const init[] = {"init", "-q", "--bare", "--template=", "--", made, NULL};
    const char *const list[] = {
        "-C", tree, place, "--work-tree=.", "ls-files", "-z", "-o", "--exclude-standard", NULL};
    int rc = git_run(init, &printed, &n, why);
    if (rc == 0) {
        free(printed);
        rc = git_run(list, ret, ret_n, why);
    }
    (void)nftw(made, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return rc;
}

/* Names, each with a NUL behind it. */
static int list_files(const char *directory, char **ret, size_t *ret_n, struct tfe_why *why)
{
    const char *const ask[] = {"-C", directory, "rev-parse", "--is-inside-work-tree", NULL};
    const char *const list[] = {"-C", directory, "ls-files",           "-z",
                                "-c", "-o",      "--exclude-standard", NULL};
    char *printed;
    size_t n;
    int rc = git_run(ask, &printed, &n, why);
    if (rc == 0) {
        const bool is_inside = strcmp(printed, "true\n") == 0;
        free(printed);
        return is_inside ? git_run(list, ret, ret_n, why) : list_alone(directory, ret, ret_n, why);
    }
    return rc == TFE_ESYS && access(directory, X_OK) == 0 && !strstr(why->text, "run git") &&
                   !strstr(why->text, "safe.directory")
               ? list_alone(directory, ret, ret_n, why)
               : rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In their order; *ret is one block. TFE_ENOMEM; TFE_ETOOBIG. */
static int sort_names(const char *names, size_t n, const char ***ret, size_t *ret_n,
                      struct tfe_why *why)
{
    size_t count = 0;
    for (size_t at = 0; at < n; at += strlen(names + at) + 1) {
        count++;
    }
    const char **v = calloc(count + 1, sizeof(*v));
    if (!v) {
        why_set(why, "out of memory");
        return TFE_ENOMEM;
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        v[i] = names + at;
        at += strlen(names + at) + 1;
    }
    qsort(v, count, sizeof(*v), compare_names);
    *ret = v;
    *ret_n = count;
    return 0;
}

/* --- packing ---------------------------------------------------------------------------------- */

static int take_packed(void *ctx, const uint8_t *bytes, size_t n, struct tfe_why *why)
{
    struct bundle *b = ctx;
    if (n > MSG_BUNDLE_MAX - b->n) {
        why_set(why,
                "the files are more than %u MiB, packed: a bundle is for code, data belongs "
                "elsewhere (.gitignore leaves it out)",
                MSG_BUNDLE_MAX >> 20);
        return TFE_ETOOBIG;
    }
    uint8_t *more = realloc(b->bytes, b->n + n);
    if (!more) {
        why_set(why, "out of memory");
        return TFE_ENOMEM;
    }
    memcpy(more + b->n, bytes, n);
    b->bytes = more;
    b->n += n;
    return 0;
}

static int pack_bytes(struct archive_packer *p, int fd, const char *name, struct tfe_why *why)
{
    uint8_t bytes[READ_BYTES];
    for (;;) {
        const ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n < 0 && errno != EINTR) {
            why_errno(why, "read %.300s", name);
            return TFE_ESYS;
        }
        int rc = n > 0 ? archive_pack(p, bytes, (size_t)n, why) : 0;
        if (rc || n == 0) {
            return rc;
        }
    }
}

/* One that git still lists and that is gone is passed over. */
static int pack_file(struct archive_packer *p, int above, const char *name, struct bundle *bundle,
                     struct tfe_why *why)
{
    struct stat st;
    int fd = openat(above, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int rc = 0;
    if (fd < 0 && errno == ENOENT) {
        return 0;
    }
    if (fd < 0 && errno != ELOOP && errno != ENXIO) {
        why_errno(why, "open %.300s", name);
        return TFE_ESYS;
    }
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        why_set(why,
                "%.300s is a link, a repository of its own, or a device: a bundle takes "
                "regular files only (.gitignore leaves it out)",
                name);
        rc = TFE_EINVAL;
    }
    rc = rc ? rc
            : archive_pack_file(p, name, (uint64_t)st.st_size, (st.st_mode & S_IXUSR) != 0, why);
    rc = rc ? rc : pack_bytes(p, fd, name, why);
    bundle->n_files += rc == 0;
    fd_drop(&fd);
    return rc;
}

static int pack_files(const char *directory, const char *const *names, size_t n,
                      struct bundle *bundle, struct tfe_why *why)
{
    struct archive_packer *p;
    int above = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0) {
        why_errno(why, "open %.300s", directory);
        return TFE_ESYS;
    }
    int rc = archive_packer_new(take_packed, bundle, &p);
    if (rc) {
        why_set(why, "out of memory");
        fd_drop(&above);
        return rc;
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (i == 0 || strcmp(names[i - 1], names[i]) != 0) { /* one in conflict comes thrice */
            rc = pack_file(p, above, names[i], bundle, why);
        }
    }
    if (rc == 0 && bundle->n_files == 0) {
        why_set(why, "%.300s: there is no file in it that .gitignore leaves in", directory);
        rc = TFE_EINVAL;
    }
    rc = rc ? rc : archive_pack_end(p, why);
    archive_packer_free(p);
    fd_drop(&above);
    return rc;
}

int bundle_pack(const char *directory, struct bundle *ret, struct tfe_why *why)
{
    struct bundle bundle = {.bytes = NULL};
    uint8_t digest[MSG_BUNDLE_HEX / 2];
    const char **names = NULL;
    char *list;
    size_t n;
    int rc = list_files(directory, &list, &n, why);
    if (rc) {
        why_prefix(why, "bundle %.200s", directory);
        return rc;
    }
    rc = sort_names(list, n, &names, &n, why);
    rc = rc ? rc : pack_files(directory, names, n, &bundle, why);
    free(names);
    free(list);
    if (rc) {
        why_prefix(why, "bundle");
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
