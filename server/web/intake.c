/* server/web/intake.c: see intake.h. */
#include "server/web/intake.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/web/http.h"
#include "server/web/multipart.h"

#define TARGET "POST /api/v1/jobs"

struct intake {
    struct bufferevent *bev;
    struct evbuffer *held; /* of a head that is not whole yet; NULL: none */
    struct event *wake;    /* NULL: nobody takes the body */
    uint64_t left;
    size_t seen;     /* of a head: no end in the first so many bytes */
    bool is_head;    /* the next bytes are a head's */
    bool is_looking; /* what is added now was not read */
    bool expects;    /* 100 Continue */
};

/* --- a head ----------------------------------------------------------------------------------- */

/* What is known of one. */
struct head {
    char *length; /* its first digit; NULL: not said */
    size_t n_length;
    bool is_form;
    bool expects;
    bool is_odd; /* nothing that evhttp might read in another way is touched */
};

/* The value of a header, behind blanks; NULL: the line is another one. n: the line's bytes. */
static char *value_of(char *line, size_t n, const char *name)
{
    const size_t n_name = strlen(name);
    if (n <= n_name || strncasecmp(line, name, n_name) != 0 || line[n_name] != ':') {
        return NULL;
    }
    char *value = line + n_name + 1;
    while (value < line + n && *value == ' ') {
        value++;
    }
    return value;
}

static void take_line(struct head *head, char *line, size_t n)
{
    char *value;
    if (line[0] == ' ' || line[0] == '\t' || memchr(line, '\0', n) ||
        value_of(line, n, "Transfer-Encoding")) {
        head->is_odd = true;
    } else if ((value = value_of(line, n, "Content-Length"))) {
        const size_t n_value = (size_t)(line + n - value);
        size_t digits = 0;
        while (digits < n_value && value[digits] >= '0' && value[digits] <= '9') {
            digits++;
        }
        head->is_odd = head->is_odd || head->length || digits != n_value || digits == 0 ||
                       digits > 18; /* fits into 64 bits */
        head->length = value;
        head->n_length = digits;
    } else if ((value = value_of(line, n, "Content-Type"))) {
        char type[sizeof("multipart/form-data;")];
        const size_t most = sizeof(type) - 1;
        const size_t n_value = (size_t)(line + n - value);
        (void)memcpy(type, value, n_value < most ? n_value : most);
        type[n_value < most ? n_value : most] = '\0';
        head->is_form = multipart_is(type);
    } else if ((value = value_of(line, n, "Expect"))) {
        head->expects =
            (size_t)(line + n - value) == 12 && strncasecmp(value, "100-continue", 12) == 0;
    }
}

/* text: a head with its empty line, as evhttp reads it: a line's end may lack its CR. */
static void read_head(struct intake *in, char *text, size_t n)
{
    struct head head = {.length = NULL};
    char *end = memchr(text, '\n', n);
    const size_t target = sizeof(TARGET) - 1;
    if (n <= target || strncmp(text, TARGET, target) != 0 ||
        (text[target] != ' ' && text[target] != '?')) {
        return;
    }
    while (end && end + 1 < text + n) {
        char *line = end + 1;
        end = memchr(line, '\n', (size_t)(text + n - line));
        size_t length = end ? (size_t)(end - line) : 0;
        length -= length > 0 && line[length - 1] == '\r';
        if (length > 0) {
            take_line(&head, line, length);
        }
    }
    if (head.is_odd || !head.is_form || !head.length) {
        return;
    }
    for (size_t i = 0; i < head.n_length; i++) {
        in->left = in->left * 10 + (uint64_t)(head.length[i] - '0');
    }
    (void)memset(head.length, '0', head.n_length);
    in->expects = head.expects;
}

/* Bytes of the head that buffer begins with; 0: its end has not come. */
static size_t find_end(struct intake *in, const char *text, size_t n)
{
    size_t at = in->seen > 2 ? in->seen - 2 : 0;
    const char *lf;
    while (at < n && (lf = memchr(text + at, '\n', n - at))) {
        at = (size_t)(lf - text) + 1;
        if (at < n && text[at] == '\n') {
            return at + 1;
        }
        if (at + 1 < n && text[at] == '\r' && text[at + 1] == '\n') {
            return at + 2;
        }
    }
    in->seen = n;
    return 0;
}

/* What is not whole is held back: evhttp would take it line by line. One that is too long is its to
 * refuse; without memory it has to do as it can. */
static void look(struct intake *in)
{
    struct evbuffer *buffer = bufferevent_get_input(in->bev);
    in->is_looking = true;
    if (in->held) {
        (void)evbuffer_prepend_buffer(buffer, in->held);
    }
    const size_t n = evbuffer_get_length(buffer);
    const size_t most = n < HTTP_HEADERS_MAX ? n : HTTP_HEADERS_MAX;
    char *text = n > 0 ? (char *)evbuffer_pullup(buffer, (ev_ssize_t)most) : NULL;
    const size_t head = text ? find_end(in, text, most) : 0;
    if (head > 0) {
        read_head(in, text, head);
        in->is_head = false;
    } else if (n > 0) {
        in->held = in->held ? in->held : evbuffer_new();
        in->is_head = text && n < HTTP_HEADERS_MAX && in->held &&
                      evbuffer_remove_buffer(buffer, in->held, n) == (int)n;
    }
    in->is_looking = false;
}

static void on_input(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *ctx)
{
    struct intake *in = ctx;
    if (in->is_looking || info->n_added == 0) {
        return;
    }
    if (in->is_head) {
        look(in);
    } else if (in->wake) {
        event_active(in->wake, EV_READ, 0); /* not from in here: it may end the connection */
    }
}

/* --- the door --------------------------------------------------------------------------------- */

struct intake *intake_new(struct bufferevent *bev)
{
    struct intake *in = calloc(1, sizeof(*in));
    if (in) {
        in->bev = bev;
        in->is_head = true;
        if (!evbuffer_add_cb(bufferevent_get_input(bev), on_input, in)) {
            free(in);
            return NULL;
        }
    }
    return in;
}

void intake_free(struct intake *in)
{
    if (in) {
        (void)evbuffer_remove_cb(bufferevent_get_input(in->bev), on_input, in);
        if (in->held) {
            evbuffer_free(in->held);
        }
        free(in);
    }
}

void intake_next(struct intake *in)
{
    if (in->left == 0) {
        in->is_head = true;
        in->seen = 0;
        look(in);
    }
}

uint64_t intake_left(const struct intake *in)
{
    return in->left;
}

void intake_begin(struct intake *in, struct event *wake)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    bufferevent_data_cb reads;
    bufferevent_data_cb writes;
    bufferevent_event_cb events;
    void *ctx;
    in->wake = wake;
    /* evhttp takes what is written for its answer before this one, and sets this anew when it
     * answers. */
    bufferevent_getcb(in->bev, &reads, &writes, &events, &ctx);
    bufferevent_setcb(in->bev, NULL, NULL, events, ctx);
    (void)bufferevent_enable(in->bev, EV_READ | EV_WRITE);
    if (in->expects && evbuffer_get_length(bufferevent_get_input(in->bev)) == 0) {
        (void)bufferevent_write(in->bev, go_on, sizeof(go_on) - 1);
    }
    event_active(wake, EV_READ, 0);
}

void intake_end(struct intake *in)
{
    in->wake = NULL;
}

bool intake_is_taken(const struct intake *in)
{
    return in->wake != NULL;
}

size_t intake_take(struct intake *in, uint8_t *ret, size_t n)
{
    n = n < in->left ? n : (size_t)in->left;
    const int some = n > 0 ? evbuffer_remove(bufferevent_get_input(in->bev), ret, n) : 0;
    intake_pass(in, some > 0 ? (size_t)some : 0);
    return some > 0 ? (size_t)some : 0;
}

void intake_pass(struct intake *in, size_t n)
{
    in->left -= n < in->left ? n : in->left;
}
