/* tests/unit/agent/test_pool_scratch.c: files and shared memory that a job leaves on a pool
 * machine, and their removal. /dev/shm and System V segments are simulated. */
#include <dirent.h>
#include <sys/shm.h>
#include <sys/wait.h>

#include "agent/pool/scratch.h"
#include "tests/unit/folder.h"

enum { SEGMENTS_MAX = 4100 };

static char shm[FOLDER_BYTES];
static struct scratch *scratch;
static struct {
    int n;
    struct {
        int id;
        uid_t of;
        shmatt_t attached;
    } v[SEGMENTS_MAX];
} segments;
static FILE *removed; /* ids, one per line */

DIR *__real_opendir(const char *name);
DIR *__wrap_opendir(const char *name);
DIR *__wrap_opendir(const char *name)
{
    return __real_opendir(strcmp(name, "/dev/shm") == 0 ? shm : name);
}

int __wrap_shmctl(int id, int what, struct shmid_ds *ret);
int __wrap_shmctl(int id, int what, struct shmid_ds *ret)
{
    if (what == SHM_INFO) {
        return segments.n - 1;
    }
    if (what == IPC_RMID) {
        return fprintf(removed, "%d\n", id) > 0 ? 0 : -1;
    }
    assert_int_equal(what, SHM_STAT);
    ret->shm_perm.uid = segments.v[id].of;
    ret->shm_nattch = segments.v[id].attached;
    return segments.v[id].id;
}

static int begin(void **state)
{
    folder_make(shm);
    segments.n = 0;
    removed = tmpfile();
    assert_non_null(removed);
    return 0;
}

static int end(void **state)
{
    scratch_free(scratch);
    scratch = NULL;
    (void)fclose(removed);
    folder_remove(shm);
    return 0;
}

#define FIXTURE begin, end

static void make(bool has_neighbours)
{
    struct tfe_reason reason;
    assert_int_equal(scratch_new(has_neighbours, &scratch, &reason), 0);
}

static void add_segment(int id, uid_t of, shmatt_t attached)
{
    segments.v[segments.n].id = id;
    segments.v[segments.n].of = of;
    segments.v[segments.n].attached = attached;
    segments.n++;
}

/* In a separate process, as intended. */
static void clear(void)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        scratch_clear(scratch);
        (void)fflush(removed);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static bool is_there(const char *name)
{
    return access(folder_path(shm, name), F_OK) == 0;
}

static const char *removed_ids(void)
{
    static char text[128];
    rewind(removed);
    text[fread(text, 1, sizeof text - 1, removed)] = '\0';
    return text;
}

TEST_IN(scratch, directory_is_empty_and_removed_with_its_content)
{
    make(false);
    const char *path = scratch_path(scratch);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(rmdir(path), 0); /* it was empty */
    assert_int_equal(mkdir(path, 0700), 0);
    folder_write(folder_path(path, "file"), "x");
    char above[256];
    (void)snprintf(above, sizeof above, "%s/..", path);
    /* the parent directory belongs to the trainers' user as well */
    folder_write(folder_path(above, "beside"), "x");
    assert_true(scratch_fd(scratch) >= 0);
    clear();
    assert_int_not_equal(access(path, F_OK), 0);
    char kept[256];
    (void)snprintf(kept, sizeof kept, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(access(kept, F_OK), 0);
    assert_int_not_equal(access(folder_path(kept, "beside"), F_OK), 0);
    scratch_free(scratch);
    scratch = NULL;
    assert_int_not_equal(access(kept, F_OK), 0);
}

TEST_IN(scratch, leaves_artifacts_of_its_agent_that_were_not_stored)
{
    char inner[256];
    make(false);
    (void)snprintf(inner, sizeof inner, "%s/tfe-agent-0123456789abcdef", scratch_base(scratch));
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(mkdir(folder_path(inner, "artifacts"), 0700), 0);
    folder_write(folder_path(inner, "artifacts/.not-stored"), "");
    folder_write(folder_path(inner, "artifacts/model"), "m");
    clear();
    assert_int_equal(access(folder_path(inner, "artifacts/model"), F_OK), 0);
    char base[256];
    (void)snprintf(base, sizeof base, "%s", scratch_base(scratch));
    scratch_free(scratch);
    scratch = NULL;
    assert_int_equal(access(folder_path(inner, "artifacts/model"), F_OK), 0);
    folder_remove(base);
}

TEST_IN(scratch, shared_memory_of_the_job_is_removed)
{
    folder_write(folder_path(shm, "before"), "x");
    make(false);
    folder_write(folder_path(shm, "of-the-job"), "x");
    folder_write(folder_path(shm, "in-use"), "x");
    assert_int_equal(mkdir(folder_path(shm, "directory"), 0700), 0);
    int fd = open(folder_path(shm, "in-use"), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    folder_write(folder_path(shm, "of-others"), "x");
    const bool is_root = chown(folder_path(shm, "of-others"), 12345, 12345) == 0;
    clear();
    assert_true(is_there("before"));
    assert_false(is_there("of-the-job"));
    assert_true(is_there("in-use"));
    assert_true(is_there("directory"));
    assert_true(!is_root || is_there("of-others"));
    (void)close(fd);
    clear();
    assert_false(is_there("in-use"));
    assert_true(is_there("before"));
}

TEST_IN(scratch, sysv_segments_of_the_job_are_removed)
{
    add_segment(7, getuid(), 0); /* existed before the job */
    make(false);
    add_segment(8, getuid(), 0);
    add_segment(9, getuid(), 1);      /* attached by a process */
    add_segment(10, getuid() + 1, 0); /* of others */
    add_segment(-1, getuid(), 0);     /* removed meanwhile */
    add_segment(11, getuid(), 0);
    clear();
    assert_string_equal(removed_ids(), "8\n11\n");
}

TEST_IN(scratch, several_slots_remove_no_shared_memory)
{
    make(true);
    folder_write(folder_path(shm, "of-somebody"), "x");
    add_segment(8, getuid(), 0);
    clear();
    assert_true(is_there("of-somebody"));
    assert_string_equal(removed_ids(), "");
}

TEST_IN(scratch, unknown_earlier_items_prevent_removal)
{
    for (int i = 0; i < 4096; i++) {
        add_segment(i, getuid(), 0);
    }
    make(false);
    add_segment(5000, getuid(), 0);
    clear();
    assert_string_equal(removed_ids(), "");
    scratch_free(scratch);
    segments.n = 4095; /* one entry below the limit */
    make(false);
    add_segment(5000, getuid(), 0);
    clear();
    assert_string_equal(removed_ids(), "5000\n");
}
