/* agent/trainer/command.c: implementation of command.h. */
#include "agent/trainer/command.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fd.h"
#include "common/cli/find_program.h"

/* First part of the digest, so that a script, a module and a command with the same name differ. */
enum kind { KIND_SCRIPT = 1, KIND_MODULE, KIND_COMMAND };

/* Programs that pass their work to a daemon or another machine. Their processes are no
 * descendants of the agent, so killing the client would leave the old epoch training. */
static const char *const delegating[] = {
    "docker", "podman", "nerdctl",    "ctr",         "crictl", "kubectl", "oc",
    "lxc",    "incus",  "machinectl", "systemd-run", "srun",   "sbatch",  "salloc",
    "qsub",   "bsub",   "ssh",        "rsh",         "mosh",   "at",      "batch",
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Searches as execvp(3) does; the caller frees the path. Returns NULL with errno
 * ENOENT, EACCES or ENOMEM. */
static char *search_path(const char *name)
{
    if (strchr(name, '/')) {
        if (is_program(name)) {
            return strdup(name);
        }
        errno = access(name, F_OK) == 0 ? EACCES : ENOENT;
        return NULL;
    }
    const char *at = getenv("PATH");
    at = at ? at : "/bin:/usr/bin";
    while (*name) {
        size_t n = strcspn(at, ":");
        char path[PATH_MAX];
        /* An empty entry means the working directory. */
        int len = snprintf(path, sizeof path, "%.*s%s%s", (int)n, at, n ? "/" : "./", name);
        if (len > 0 && (size_t)len < sizeof path && is_program(path)) {
            return strdup(path);
        }
        if (at[n] == '\0') {
            break;
        }
        at += n + 1;
    }
    errno = ENOENT;
    return NULL;
}

/* Hashes each part with its length, so that different lists of parts never give the same input. */
static void digest_part(crypto_generichash_state *state, const char *bytes, size_t n)
{
    uint64_t length = htole64(n);
    crypto_generichash_update(state, (const unsigned char *)&length, sizeof length);
    crypto_generichash_update(state, (const unsigned char *)bytes, n);
}

/* Hashes the contents of fd. Returns 0, or -1 with errno set. */
static int digest_file(int fd, unsigned char ret[crypto_generichash_BYTES])
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, crypto_generichash_BYTES);
    for (;;) {
        unsigned char bytes[16384];
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            crypto_generichash_final(&state, ret, crypto_generichash_BYTES);
            return (int)n;
        }
        crypto_generichash_update(&state, bytes, (size_t)n);
    }
}

/* Hashes the script's contents. Returns TFE_EINVAL with reason set. */
static int digest_script(crypto_generichash_state *state, const char *path,
                         struct tfe_reason *reason)
{
    unsigned char content[crypto_generichash_BYTES];
    struct stat st;
    /* O_NONBLOCK: do not hang if the script is a pipe. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        reason_errno(reason, "script %s", path);
        return TFE_EINVAL;
    }
    int rc = 0;
    if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
        reason_set(reason, "script %s is %s", path,
                   S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
        rc = TFE_EINVAL;
    } else if (digest_file(fd, content) != 0) {
        reason_errno(reason, "script %s", path);
        rc = TFE_EINVAL;
    } else {
        digest_part(state, (const char *)content, sizeof content);
    }
    close(fd);
    return rc;
}

/* Hashes a command that is itself a script (./run.sh) by its contents, and any other by its
 * name, because the bash or python binary differs between machines. */
static int digest_command(crypto_generichash_state *state, const char *path,
                          struct tfe_reason *reason)
{
    char start[2] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, start, sizeof start) : -1;
    fd_close(&fd);
    if (n == (ssize_t)sizeof start && memcmp(start, "#!", 2) == 0) {
        return digest_script(state, path, reason);
    }
    digest_part(state, base_name(path), strlen(base_name(path)));
    return 0;
}

static int check_delegation(const char *name, struct tfe_reason *reason)
{
    for (size_t i = 0; i < sizeof delegating / sizeof delegating[0]; i++) {
        if (strcmp(base_name(name), delegating[i]) == 0) {
            reason_set(reason,
                       "%s starts the work in processes that the agent can neither see nor end "
                       "(run tfe-agent inside it instead)",
                       delegating[i]);
            return TFE_EINVAL;
        }
    }
    return 0;
}

/* Finds the program to run. Returns TFE_ENOENT with reason set (exit 127). */
static int program_find(const char *name, const char *what, char **ret, struct tfe_reason *reason)
{
    *ret = search_path(name);
    if (*ret) {
        return 0;
    }
    if (errno == ENOMEM) {
        reason_set(reason, "out of memory");
        return TFE_ENOMEM;
    }
    reason_set(reason, "%s %s %s", what, name,
               errno == EACCES ? "is not executable" : "was not found");
    return TFE_ENOENT;
}

/* Builds argv from program, which is taken over, an optional option and n further arguments. */
static int argv_make(struct command *command, char *program, char *option, char **rest, size_t n)
{
    size_t at = 0;
    command->argv = calloc(n + 3, sizeof *command->argv);
    if (!command->argv) {
        return TFE_ENOMEM;
    }
    command->argv[at++] = program;
    if (option) {
        command->argv[at++] = option;
    }
    for (size_t i = 0; i < n; i++) {
        command->argv[at++] = rest[i];
    }
    return 0;
}

static int digest_kind(crypto_generichash_state *state, enum kind kind, char **operands,
                       const char *program, struct tfe_reason *reason)
{
    char byte = (char)kind;
    digest_part(state, &byte, 1);
    switch (kind) {
    case KIND_SCRIPT:
        return digest_script(state, operands[0], reason);
    case KIND_MODULE:
        digest_part(state, operands[0], strlen(operands[0]));
        return 0;
    case KIND_COMMAND:
        return digest_command(state, program, reason);
    }
    return TFE_EINVAL;
}

/* Returns the interpreter that was given, else that of the virtual environment that contains
 * tfe-agent itself, else "python3". The result may be in buf. */
static const char *python_name(const char *python, char buf[PATH_MAX])
{
    const char *given = python && *python ? python : getenv("PYTHON_EXEC");
    if (given && *given) {
        return given;
    }
    char config[PATH_MAX + sizeof "/../pyvenv.cfg"];
    find_program("python3", buf);
    const char *slash = strrchr(buf, '/');
    if (!slash) {
        return "python3";
    }
    (void)snprintf(config, sizeof config, "%.*s/../pyvenv.cfg", (int)(slash - buf), buf);
    return access(config, F_OK) == 0 ? buf : "python3";
}

/* Fills *ret except for digest. Takes program over, except after an error. Returns TFE_ENOMEM. */
static int make(char **operands, int count, bool module, bool no_python, char *program,
                struct command *ret, struct tfe_reason *reason)
{
    struct command command = {.is_python = !no_python};
    /* a command's name is replaced by the path where it was found */
    size_t skip = no_python ? 1 : 0;
    int rc = argv_make(&command, program, module && !no_python ? "-m" : NULL, operands + skip,
                       (size_t)count - skip);
    if (rc != 0) {
        reason_set(reason, "out of memory");
        return rc;
    }
    *ret = command;
    return 0;
}

/* True if the file names a shell behind "#!". */
static bool is_shell_script(const char *path)
{
    static const char *const shells[] = {"sh", "bash", "dash", "ksh", "zsh"};
    char line[128] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
    fd_close(&fd);
    if (n < 2 || line[0] != '#' || line[1] != '!') {
        return false;
    }
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    char *save = NULL;
    const char *word = strtok_r(line + 2, " \t", &save);
    if (word && strcmp(base_name(word), "env") == 0) {
        word = strtok_r(NULL, " \t", &save);
    }
    for (size_t i = 0; word && i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(base_name(word), shells[i]) == 0) {
            return true;
        }
    }
    return false;
}

int command_new(char **operands, int count, const char *python, bool module, bool no_python,
                struct command *ret, struct tfe_reason *reason)
{
    if (count < 1 || operands[0][0] == '\0') {
        reason_set(reason, module ? "missing module (name one after -m)"
                                  : "missing script (name one after the options)");
        return TFE_EINVAL;
    }
    enum kind kind = module ? KIND_MODULE : KIND_SCRIPT;
    if (no_python) {
        kind = KIND_COMMAND;
    }
    const char *name = operands[0];
    char buf[PATH_MAX];
    if (kind == KIND_COMMAND) {
        int rc = check_delegation(name, reason);
        if (rc != 0) {
            return rc;
        }
    } else {
        name = python_name(python, buf);
    }
    /* Check the script first: a mistyped name is the most likely mistake and has
     * the clearest message. */
    struct stat st;
    if (kind == KIND_SCRIPT && stat(operands[0], &st) != 0) {
        reason_errno(reason, "script %s", operands[0]);
        if (strncmp(base_name(operands[0]), "python", 6) == 0 && count > 1) {
            reason_set(reason,
                       "%s is not a script (name the script alone, as in tfe-agent [OPTIONS] %s; "
                       "--python sets the interpreter)",
                       operands[0], operands[1]);
        }
        return TFE_EINVAL;
    }
    if (kind == KIND_SCRIPT && is_shell_script(operands[0])) {
        reason_set(reason, "script %s is a shell script, not a Python script (use --no-python)",
                   operands[0]);
        return TFE_EINVAL;
    }
    char *program = NULL;
    int rc = program_find(name, kind == KIND_COMMAND ? "command" : "python", &program, reason);
    if (rc != 0) {
        return rc;
    }
    crypto_generichash_state state;
    unsigned char digest[crypto_generichash_BYTES];
    crypto_generichash_init(&state, NULL, 0, sizeof digest);
    rc = digest_kind(&state, kind, operands, program, reason);
    for (int i = 1; rc == 0 && i < count; i++) {
        digest_part(&state, operands[i], strlen(operands[i]));
    }
    crypto_generichash_final(&state, digest, sizeof digest);
    uint64_t number;
    memcpy(&number, digest, sizeof number);
    if (rc == 0) {
        rc = make(operands, count, module, no_python, program, ret, reason);
    }
    if (rc != 0) {
        free(program);
        return rc;
    }
    ret->digest = le64toh(number);
    return 0;
}

void command_done(struct command *command)
{
    if (command->argv) {
        free(command->argv[0]);
    }
    free(command->argv);
    command->argv = NULL;
}
