/* server/web/token_reader.c: see token_reader.h. */
#include "server/web/token_reader.h"

#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/fd.h"
#include "common/credentials/join.h"
#include "server/sandbox/drop_privileges.h"
#include "server/web/web_settings.h"

/* Maximum time for which a slow file system blocks tfe-web. */
#define ANSWER_S 2

struct token_reader {
    int fd;
};

/* Message from the process. Both ends are the same program, so a struct is sufficient. */
struct response {
    int rc;
    char host[TFE_HOST_MAX + 1];
    uint16_t port;
    struct token token;
};

static void answer_once(int fd, const struct web_settings *settings, struct response *response)
{
    struct join_info found = {.port = 0};
    struct tfe_reason reason;
    sodium_memzero(response, sizeof(*response));
    response->rc = web_settings_find(settings, &found, &reason);
    if (response->rc == 0) {
        memcpy(response->host, found.host, sizeof(response->host));
        response->port = found.port;
        response->token = *found.token;
    }
    join_done(&found);
    (void)send(fd, response, sizeof(*response), MSG_NOSIGNAL);
    sodium_memzero(response, sizeof(*response));
}

static _Noreturn void serve(int fd, const struct web_settings *settings,
                            const struct privileges *rights)
{
    struct tfe_reason reason;
    struct response *response = sodium_malloc(sizeof(*response));
    char question;
    (void)prctl(PR_SET_NAME, "tfe-web-token", 0, 0, 0);
    if (!response || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 ||
        privileges_drop(rights, &reason) != 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) { /* a change of the user resets it */
        _exit(EXIT_FAILURE);
    }
    while (recv(fd, &question, 1, 0) == 1) {
        answer_once(fd, settings, response);
    }
    _exit(EXIT_SUCCESS);
}

int token_reader_new(const struct web_settings *settings, const struct privileges *rights,
                     struct token_reader **ret, struct tfe_reason *reason)
{
    const struct timeval timeout = {.tv_sec = ANSWER_S};
    struct token_reader *reader = calloc(1, sizeof(*reader));
    int ends[2];
    if (!reader || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        reason_errno(reason, "start the process that reads the token");
        free(reader);
        return TFE_ESYS;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        serve(ends[1], settings, rights);
    }
    (void)close(ends[1]);
    reader->fd = ends[0];
    if (pid < 0 || setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) != 0) {
        reason_errno(reason, "start the process that reads the token");
        token_reader_free(reader);
        return TFE_ESYS;
    }
    *ret = reader;
    return 0;
}

void token_reader_free(struct token_reader *reader)
{
    if (reader) {
        fd_close(&reader->fd); /* the process ends at the end of its socket */
        free(reader);
    }
}

/* Discards responses to earlier requests that came too late. */
static void discard_late(int fd, struct response *response)
{
    while (recv(fd, response, sizeof(*response), MSG_DONTWAIT) > 0) {
    }
}

int token_reader_read(struct token_reader *reader, struct join_info *ret)
{
    struct response *response = reader ? sodium_malloc(sizeof(*response)) : NULL;
    struct token *token = response ? sodium_malloc(sizeof(*token)) : NULL;
    int rc = reader ? TFE_ENOMEM : TFE_EAUTH;
    if (token) {
        discard_late(reader->fd, response);
        rc = send(reader->fd, "?", 1, MSG_NOSIGNAL) == 1 &&
                     recv(reader->fd, response, sizeof(*response), 0) == (ssize_t)sizeof(*response)
                 ? response->rc
                 : TFE_ESYS;
    }
    if (rc == 0) {
        *token = response->token;
        *ret = (struct join_info){.port = response->port, .token = token};
        memcpy(ret->host, response->host, sizeof(ret->host));
    } else {
        sodium_free(token);
    }
    sodium_free(response);
    return rc;
}
