/* common/channel/node_id.c: a node's id is the hash of a secret, which proves it. */
#include "common/channel/node_id.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/channel/secret.h"

#define HASH_BYTES 16

_Static_assert(MSG_NODE_SECRET_CHARS == SECRET_CHARS, "it is one");

void node_secret_make(char ret[MSG_NODE_SECRET_CHARS + 1])
{
    secret_make(ret);
}

void node_label(const char *wanted, struct tfe_id *ret)
{
    char host[HOST_NAME_MAX + 1] = "";
    if (wanted) {
        id_from_text(ret, wanted);
        return;
    }
    (void)gethostname(host, sizeof(host) - 1);
    id_from_text(ret, host);
}

int node_id_of(const char *secret, struct tfe_id *ret)
{
    return secret_hash(secret, NULL, HASH_BYTES, ret);
}

bool node_id_is_proved(const char *id, const char *secret)
{
    struct tfe_id proved;
    return node_id_of(secret, &proved) == 0 && strcmp(proved.text, id) == 0;
}
