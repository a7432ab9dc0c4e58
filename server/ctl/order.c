/* server/ctl/order.c: what drain, evict and stop share: an order, its answer, and what is printed.
 */
#include "server/ctl/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/base/json.h"
#include "common/net/heap.h"
#include "server/ctl/request.h"

static void on_begin(void *ctx)
{
    (void)ctx;
}

static enum request_progress on_reply(void *ctx, const struct tfe_msg *msg)
{
    (void)ctx;
    return msg->type == MSG_DONE ? REQUEST_DONE : REQUEST_STRANGE;
}

static int print_json(const struct order *order)
{
    struct json j;
    const char *text;
    size_t n;
    json_init(&j, &heap_mem);
    json_begin_object(&j, NULL);
    json_text(&j, "done", order->verb);
    json_text(&j, order->key, order->operand);
    json_end_object(&j);
    int err = json_finish(&j, &text, &n);
    if (err == 0) {
        (void)fwrite(text, 1, n, stdout);
        (void)putchar('\n');
    }
    json_done(&j);
    return err;
}

int order_run(const struct ctl_settings *settings, const struct order *order)
{
    struct request request = {.question = &order->msg,
                              .roles = {TOKEN_ADMIN},
                              .n_roles = 1,
                              .begin = on_begin,
                              .reply = on_reply};
    int status = request_run(settings, &request);
    if (status != EXIT_SUCCESS) {
        return status;
    }
    if (!settings->json) {
        (void)printf("%s %s %s\n", order->key, order->operand, order->sentence);
    } else if (print_json(order) != 0) {
        (void)fprintf(stderr, "tfe-ctl: it is done, but there is no memory to say so\n");
        return CTL_FAILED;
    }
    return EXIT_SUCCESS;
}

bool order_node_is_sound(const char *node)
{
    size_t n = strlen(node);
    bool sound = n >= 1 && n <= TFE_LABEL_MAX;
    for (const char *c = node; sound && *c != '\0'; c++) {
        sound = (unsigned char)*c >= 0x20 && *c != 0x7f;
    }
    if (!sound) {
        (void)fprintf(stderr,
                      "tfe-ctl: a node's id or label has 1 to %d bytes and no control characters\n",
                      TFE_LABEL_MAX);
    }
    return sound;
}
