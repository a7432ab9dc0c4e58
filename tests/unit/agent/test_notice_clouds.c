/* tests/unit/agent/test_notice_clouds.c: the metadata services of the three clouds as they are
 * documented, with valid and invalid responses. */
#include <event2/buffer.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <limits.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

#include "agent/preemption/preemption.h"
#include "tests/unit/agent/watch.h"

static struct watch watch;

/* The service's responses, and what was requested. */
static struct {
    struct evhttp *http;
    const char *token; /* AWS: the valid token; "" to return none */
    const char *action;
    const char *rebalance;
    const char *preempted; /* GCE; NULL to delay the response until it is set */
    const char *maintenance;
    const char *name; /* Azure */
    const char *events;
    const char *etag;
    const char *document; /* AWS; NULL for 404, also below */
    const char *life;
    const char *zone; /* GCE */
    const char *type;
    const char *preemptible;
    int broken;      /* status of all responses, or 0 */
    int dull;        /* … to what is not of warnings; so often */
    unsigned abouts; /* number of requests for facts about the machine */
    bool is_mute;    /* never answers */
    int clock_off_s; /* the service's clock relative to ours */
    unsigned tokens, asked, acknowledged;
    char body[1024]; /* of the last POST */
    char uri[512];   /* of the last long poll */
} cloud;

static void clock_text(char ret[64], int ahead_s, bool is_date)
{
    struct tm parts;
    const time_t now = time(NULL) + cloud.clock_off_s + ahead_s;
    (void)gmtime_r(&now, &parts);
    const size_t n = is_date ? strftime(ret, 64, "%a, %d %b %Y %H:%M:%S GMT", &parts)
                             : strftime(ret, 64, "%Y-%m-%dT%H:%M:%SZ", &parts);
    assert_true(n > 0);
}

static void reply(struct evhttp_request *request, int status, const char *text)
{
    struct evbuffer *body = evbuffer_new();
    char date[64];
    clock_text(date, 0, true);
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    (void)evhttp_add_header(headers, "Date", date);
    (void)evhttp_add_header(headers, "Metadata-Flavor", "Google");
    if (cloud.etag) {
        (void)evhttp_add_header(headers, "ETag", cloud.etag);
    }
    (void)evbuffer_add(body, text, strlen(text));
    evhttp_send_reply(request, status, "so", body);
    evbuffer_free(body);
}

static void reply_or_404(struct evhttp_request *request, const char *text)
{
    reply(request, text ? 200 : 404, text ? text : "");
}

/* Sends a fact about the machine. */
static void reply_about(struct evhttp_request *request, const char *text)
{
    cloud.abouts++;
    if (cloud.dull > 0) {
        cloud.dull--;
        reply(request, 503, "");
    } else {
        reply_or_404(request, text);
    }
}

static const char *header(struct evhttp_request *request, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(request), name);
}

static void on_aws(struct evhttp_request *request, const char *uri)
{
    char body[256];
    char time_text[64];
    static int moves;
    if (strcmp(uri, "/latest/api/token") == 0) {
        const char *ttl = header(request, "X-aws-ec2-metadata-token-ttl-seconds");
        const bool is_put = evhttp_request_get_command(request) == EVHTTP_REQ_PUT;
        cloud.tokens++;
        reply(request, is_put && ttl && cloud.token[0] ? 200 : 400, cloud.token);
        return;
    }
    const char *token = header(request, "X-aws-ec2-metadata-token");
    if (!token || strcmp(token, cloud.token) != 0) {
        reply(request, 401, "");
    } else if (strstr(uri, "/instance-identity/document")) {
        reply_about(request, cloud.document);
    } else if (strstr(uri, "/instance-life-cycle")) {
        reply_about(request, cloud.life);
    } else if (strstr(uri, "rebalance")) {
        reply_or_404(request, cloud.rebalance);
    } else if (cloud.action && cloud.action[0] != '{' && cloud.action[0] != '[') {
        /* As AWS's public mock does, the time is later in each response. */
        clock_text(time_text, 120 + 7 * moves++, false);
        (void)snprintf(body, sizeof body, "{\"action\":\"%s\",\"time\":\"%s\"}", cloud.action,
                       time_text);
        reply(request, 200, body);
    } else {
        reply_or_404(request, cloud.action);
    }
}

static void on_azure(struct evhttp_request *request, const char *uri)
{
    if (!header(request, "Metadata")) {
        reply(request, 400, "");
    } else if (strstr(uri, "/metadata/instance")) {
        reply_or_404(request, cloud.name);
    } else if (evhttp_request_get_command(request) == EVHTTP_REQ_POST) {
        struct evbuffer *body = evhttp_request_get_input_buffer(request);
        const ssize_t n = evbuffer_copyout(body, cloud.body, sizeof cloud.body - 1);
        cloud.body[n > 0 ? n : 0] = '\0';
        cloud.acknowledged++;
        reply(request, 200, "");
    } else {
        reply_or_404(request, cloud.events);
    }
}

static void on_request(struct evhttp_request *request, void *ctx)
{
    (void)ctx;
    const char *uri = evhttp_request_get_uri(request);
    cloud.asked++;
    if (cloud.is_mute) {
        return;
    }
    if (cloud.broken) {
        reply(request, cloud.broken, "<html>");
    } else if (strncmp(uri, "/latest/", 8) == 0) {
        on_aws(request, uri);
    } else if (strncmp(uri, "/metadata/", 10) == 0) {
        on_azure(request, uri);
    } else if (strstr(uri, "/instance/preempted") && header(request, "Metadata-Flavor")) {
        (void)snprintf(cloud.uri, sizeof cloud.uri, "%s", uri);
        if (cloud.preempted) {
            reply(request, 200, cloud.preempted);
        }
    } else if (strstr(uri, "/instance/maintenance-event") && header(request, "Metadata-Flavor")) {
        reply(request, 200, cloud.maintenance);
    } else if (header(request, "Metadata-Flavor")) {
        reply_about(request, strstr(uri, "/instance/zone")                     ? cloud.zone
                             : strstr(uri, "/instance/machine-type")           ? cloud.type
                             : strstr(uri, "/instance/scheduling/preemptible") ? cloud.preemptible
                                                                               : NULL);
    } else {
        reply(request, 404, "");
    }
}

static int make(void **state)
{
    (void)state;
    char place[64];
    struct tfe_reason reason;
    memset(&cloud, 0, sizeof cloud);
    cloud.token = "first";
    cloud.preempted = "FALSE";
    cloud.maintenance = "NONE";
    watch_init(&watch);
    cloud.http = evhttp_new(watch.base);
    evhttp_set_gencb(cloud.http, on_request, NULL);
    struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(cloud.http, "127.0.0.1", 0);
    struct sockaddr_in address;
    socklen_t n = sizeof address;
    if (!bound || getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&address, &n)) {
        return -1;
    }
    (void)snprintf(place, sizeof place, "http://127.0.0.1:%u", ntohs(address.sin_port));
    return notice_selection_place(&watch.choice, place, &reason);
}

static int end(void **state)
{
    (void)state;
    evhttp_free(cloud.http);
    watch_done(&watch);
    return 0;
}

static void ask_some_more(void)
{
    const unsigned asked = cloud.asked;
    watch_until(&watch, cloud.asked >= asked + 6);
}

/* Gives each of these answers (the last is NULL) for a while. */
static void answer_each(const char **field, const char *const *answers)
{
    for (; *answers; answers++) {
        *field = *answers;
        ask_some_more();
    }
}

#define FIXTURE make, end

/* --- AWS --- */

TEST_IN(aws, interruption_is_sent_once_despite_changing_time)
{
    watch_start(&watch, "aws");
    ask_some_more();
    assert_int_equal(watch.told, 0);
    cloud.action = "terminate";
    watch_until(&watch, watch.told == 1);
    const struct agent_notice *notice = &watch.last[NOTICE_PREEMPT];
    assert_true(watch_is_ahead(notice->deadline, 120000));
    assert_false(notice->uncertain);
    ask_some_more();
    assert_int_equal(watch.told, 1);
    assert_int_equal(cloud.tokens, 1);
    cloud.action = NULL;
    watch_until(&watch, watch.told == 2);
    assert_true(notice->withdrawn);
}

#define REBALANCE "{\"noticeTime\":\"2026-01-01T00:00:00Z\"}"

TEST_IN(aws, rebalance_is_a_hint)
{
    cloud.rebalance = REBALANCE;
    watch_start(&watch, "aws");
    watch_until(&watch, watch.n[NOTICE_REBALANCE] == 1);
    assert_true(watch.last[NOTICE_REBALANCE].uncertain);
    assert_true(tfe_mono_is_never(watch.last[NOTICE_REBALANCE].deadline));
    cloud.rebalance = NULL;
    watch_until(&watch, watch.last[NOTICE_REBALANCE].withdrawn);
    cloud.rebalance = REBALANCE; /* it may be repeated unchanged */
    watch_until(&watch, !watch.last[NOTICE_REBALANCE].withdrawn);
    assert_int_equal(watch.n[NOTICE_PREEMPT], 0);
}

TEST_IN(aws, expired_token_is_replaced)
{
    watch_start(&watch, "aws");
    ask_some_more();
    cloud.token = "second";
    cloud.action = "stop";
    watch_until(&watch, watch.told == 1);
    assert_int_equal(cloud.tokens, 2);
}

TEST_IN(aws, token_with_a_line_break_is_not_used)
{
    cloud.token = "a\tb";
    watch_start(&watch, "aws");
    watch_until(&watch, cloud.tokens == 3);
    cloud.token = "good";
    cloud.action = "terminate";
    watch_until(&watch, watch.told == 1);
}

TEST_IN(aws, deadline_counts_from_the_clock_of_the_service_and_is_now_for_hibernation)
{
    cloud.clock_off_s = -7 * 86400;
    cloud.action = "terminate";
    watch_start(&watch, "aws");
    watch_until(&watch, watch.told == 1);
    assert_true(watch_is_ahead(watch.last[NOTICE_PREEMPT].deadline, 120000));
    cloud.action = "hibernate";
    watch_until(&watch, watch.told == 2);
    assert_true(watch_is_ahead(watch.last[NOTICE_PREEMPT].deadline, 0));
}

TEST_IN(aws, invalid_response_is_no_notice)
{
    static const char *const answers[] = {
        "[]",
        "{}",
        "{\"action\":5,\"time\":\"2026-01-01T00:00:00Z\"}",
        "{\"action\":\"stop\",\"time\":17}",
        "{\"action\":\"stop\",\"time\":\"tomorrow\"}",
        "{\"action\":\"stop\",\"time\":\"2026-01-01T00:00:00Z\"",
        "{\"action\":null}",
        NULL,
    };
    watch_start(&watch, "aws");
    answer_each(&cloud.action, answers);
    assert_int_equal(watch.told, 0);
    cloud.action = "stop";
    watch_until(&watch, watch.told == 1);
}

TEST_IN(aws, invalid_response_is_no_hint)
{
    /* Bug: any response with status 200 counted, even of a captive portal or a proxy. */
    static const char *const answers[] = {
        "",
        "<html>",
        "[]",
        "{}",
        "{\"noticeTime\":5}",
        "{\"noticeTime\":null}",
        "[{\"noticeTime\":\"2026-01-01T00:00:00Z\"}]",
        "{\"noticeTime\":\"2026-01-01T00:00:00Z\"",
        NULL,
    };
    watch_start(&watch, "aws");
    answer_each(&cloud.rebalance, answers);
    assert_int_equal(watch.told, 0);
    cloud.rebalance = REBALANCE;
    watch_until(&watch, watch.told == 1);
    cloud.rebalance = "";
    ask_some_more();
    assert_int_equal(watch.told, 1); /* the active notice is unchanged */
}

/* --- GCE --- */

TEST_IN(gce, preemption_leaves_30_seconds)
{
    watch_start(&watch, "gce");
    watch_until(&watch, strstr(cloud.uri, "wait_for_change=true&timeout_sec=1"));
    assert_null(strstr(cloud.uri, "last_etag"));
    assert_int_equal(watch.told, 0);
    cloud.preempted = "TRUE\n";
    watch_until(&watch, watch.told == 1);
    assert_true(watch_is_ahead(watch.last[NOTICE_PREEMPT].deadline, 30000));
    assert_false(watch.last[NOTICE_PREEMPT].uncertain);
    ask_some_more();
    assert_int_equal(watch.told, 1);
}

TEST_IN(gce, started_preemption_has_no_known_deadline)
{
    /* Bug: an agent started in the last seconds of a machine expected 30 more. */
    cloud.preempted = "TRUE";
    watch_start(&watch, "gce");
    watch_until(&watch, watch.told == 1);
    assert_true(watch_is_ahead(watch.last[NOTICE_PREEMPT].deadline, 15000));
    assert_true(watch.last[NOTICE_PREEMPT].uncertain);
    watch_until(&watch, strstr(cloud.uri, "wait_for_change=true"));
    ask_some_more();
    assert_int_equal(watch.told, 1); /* the same notice again */
    assert_true(watch.last[NOTICE_PREEMPT].uncertain);
}

TEST_IN(gce, change_between_two_requests_is_not_missed)
{
    cloud.etag = "0a1b";
    watch_start(&watch, "gce");
    watch_until(&watch, strstr(cloud.uri, "&last_etag=0a1b"));
}

TEST_IN(gce, terminating_maintenance_is_a_notice_and_migration_a_hint)
{
    cloud.maintenance = "MIGRATE_ON_HOST_MAINTENANCE";
    watch_start(&watch, "gce");
    watch_until(&watch, watch.n[NOTICE_REBALANCE] == 1);
    cloud.maintenance = "TERMINATE_ON_HOST_MAINTENANCE";
    watch_until(&watch, watch.n[NOTICE_MAINTENANCE] == 1);
    assert_true(watch.last[NOTICE_REBALANCE].withdrawn);
    assert_true(watch_is_ahead(watch.last[NOTICE_MAINTENANCE].deadline, 60000));
    cloud.maintenance = "NONE";
    watch_until(&watch, watch.last[NOTICE_MAINTENANCE].withdrawn);
}

TEST_IN(gce, interrupted_long_poll_is_repeated)
{
    watch_start(&watch, "gce");
    watch_until(&watch, strstr(cloud.uri, "wait_for_change"));
    cloud.broken = 503;
    ask_some_more();
    cloud.broken = 0;
    cloud.preempted = "TRUE";
    watch_until(&watch, watch.told == 1);
}

/* --- Azure --- */

#define EVENT(id, type, status, resource, time)                                                    \
    "{\"EventId\":\"" id "\",\"EventType\":\"" type "\",\"ResourceType\":\"VirtualMachine\","      \
    "\"Resources\":[\"" resource "\"],\"EventStatus\":\"" status "\","                             \
    "\"NotBefore\":\"" time "\"}"
#define LIST(events) "{\"DocumentIncarnation\":1,\"Events\":[" events "]}"

#define IN_40_S "Mon, 19 Sep 2016 18:29:40 GMT"
#define EVENT_OF_A(id, type) EVENT(id, type, "Scheduled", "a", IN_40_S)

/* Sets the events of the machine "a"; the service's clock differs from ours. */
static void set_azure(const char *events)
{
    struct tm parts = {.tm_year = 116, .tm_mon = 8, .tm_mday = 19, .tm_hour = 18, .tm_min = 29};
    cloud.clock_off_s = (int)(timegm(&parts) - time(NULL));
    cloud.name = "{\"compute\":{\"name\":\"a\",\"x\":1}}";
    cloud.events = events;
}

static void start_azure(const char *events)
{
    set_azure(events);
    watch_start(&watch, "azure");
}

TEST_IN(azure, event_for_this_machine_is_a_notice)
{
    start_azure(LIST(EVENT("E1", "Preempt", "Scheduled", "b", IN_40_S)));
    notice_watch_set_running(watch.notices, true);
    ask_some_more();
    assert_int_equal(watch.told, 0);
    cloud.events = LIST(EVENT("E1", "Preempt", "Scheduled", "b",
                              IN_40_S) "," EVENT("E2", "Preempt", "Scheduled", "A", IN_40_S));
    watch_until(&watch, watch.told == 1);
    assert_true(watch_is_ahead(watch.last[NOTICE_PREEMPT].deadline, 40000));
    ask_some_more();
    assert_int_equal(watch.told, 1);
    cloud.events = LIST("");
    watch_until(&watch, watch.last[NOTICE_PREEMPT].withdrawn);
    assert_int_equal(cloud.acknowledged, 0);
}

TEST_IN(azure, every_kind_of_maintenance_is_a_notice)
{
    static const char *const lists[] = {
        LIST(EVENT_OF_A("R1", "Reboot")),
        LIST(EVENT_OF_A("R2", "Redeploy")),
    };
    start_azure(LIST(""));
    for (unsigned i = 0; i < 2; i++) {
        cloud.events = lists[i];
        watch_until(&watch, watch.n[NOTICE_MAINTENANCE] == i + 1);
    }
    assert_true(watch_is_ahead(watch.last[NOTICE_MAINTENANCE].deadline, 40000));
    cloud.events = LIST(EVENT_OF_A("R4", "Terminate"));
    watch_until(&watch, watch.n[NOTICE_PREEMPT] == 1);
}

/* The machine stops for seconds and continues. */
TEST_IN(azure, freeze_is_a_hint)
{
    start_azure(LIST(EVENT_OF_A("F1", "Freeze")));
    watch_until(&watch, watch.n[NOTICE_REBALANCE] == 1);
    assert_true(tfe_mono_is_never(watch.last[NOTICE_REBALANCE].deadline));
    assert_true(watch.last[NOTICE_REBALANCE].uncertain);
    assert_int_equal(watch.told, 1);
    cloud.events = LIST(EVENT("F1", "Freeze", "Started", "a", ""));
    ask_some_more();
    assert_int_equal(watch.told, 1);
    cloud.events = LIST("");
    watch_until(&watch, watch.last[NOTICE_REBALANCE].withdrawn);
    assert_int_equal(cloud.acknowledged, 0);
}

/* Responses as the clouds and their mocks write them. */
TEST_IN(azure, document_may_omit_empty_fields)
{
    static const char null_time[] =
        "\xef\xbb\xbf{\"DocumentIncarnation\":1,\"Events\":[{\"EventId\":\"N1\",\"EventStatus\":"
        "\"Started\",\"EventType\":\"Preempt\",\"Resources\":[\"a\"],\"NotBefore\":null}]}";
    static const char *const none[] = {"{\"DocumentIncarnation\":2}",
                                       "{\"DocumentIncarnation\":3,\"Events\":null}"};
    start_azure(LIST(""));
    for (unsigned i = 0; i < 2; i++) {
        cloud.events = null_time;
        watch_until(&watch, watch.n[NOTICE_PREEMPT] == 2 * i + 1);
        assert_true(watch_is_ahead(watch.last[NOTICE_PREEMPT].deadline, 0));
        cloud.events = none[i];
        watch_until(&watch, watch.n[NOTICE_PREEMPT] == 2 * i + 2);
        assert_true(watch.last[NOTICE_PREEMPT].withdrawn);
    }
}

TEST_IN(azure, event_is_acknowledged_only_when_the_node_is_drained)
{
    start_azure(LIST(EVENT("E1", "Preempt", "Scheduled", "a",
                           IN_40_S) "," EVENT("E2", "Reboot", "Started", "a", IN_40_S)));
    notice_watch_set_running(watch.notices, true);
    watch_until(&watch, watch.told == 2);
    watch_for(&watch, 150);
    assert_int_equal(cloud.acknowledged, 0);
    notice_watch_set_running(watch.notices, false);
    watch_until(&watch, cloud.acknowledged == 1);
    assert_string_equal(cloud.body, "{\"StartRequests\":[{\"EventId\":\"E1\"}]}");
    ask_some_more();
    assert_int_equal(cloud.acknowledged, 1);
}

/* Bug: an acknowledgement started the event on all of these machines, whatever ran there. */
TEST_IN(azure, event_for_several_machines_is_not_acknowledged)
{
    start_azure(LIST(EVENT("E1", "Reboot", "Scheduled", "a\",\"b", IN_40_S)));
    notice_watch_set_running(watch.notices, true);
    watch_until(&watch, watch.told == 1);
    notice_watch_set_running(watch.notices, false);
    watch_for(&watch, 150);
    ask_some_more();
    assert_int_equal(cloud.acknowledged, 0);
    cloud.events = LIST(EVENT_OF_A("E1", "Reboot"));
    watch_until(&watch, cloud.acknowledged == 1);
}

TEST_IN(azure, epoch_that_starts_delays_the_acknowledgement)
{
    watch.runs_when_told = true; /* within the quiet time */
    start_azure(LIST(EVENT_OF_A("E1", "Preempt")));
    watch_until(&watch, watch.told == 1);
    watch_for(&watch, 150);
    assert_int_equal(cloud.acknowledged, 0);
}

/* A hint does not drain a node, so a later notice is followed by its own quiet time. */
TEST_IN(azure, acknowledgement_after_a_hint_waits_for_an_idle_node)
{
    set_azure(LIST(""));
    cloud.rebalance = REBALANCE;
    watch_start(&watch, "aws,azure");
    watch_until(&watch, watch.n[NOTICE_REBALANCE] == 1);
    watch_for(&watch, 150);
    watch.intervals.quiet_ms = 3600000;
    cloud.events = LIST(EVENT_OF_A("E1", "Preempt"));
    watch_until(&watch, watch.n[NOTICE_PREEMPT] == 1);
    ask_some_more();
    assert_int_equal(cloud.acknowledged, 0);
}

TEST_IN(azure, invalid_response_changes_nothing)
{
    static const char *const answers[] = {
        "nonsense",
        "[]",
        "{\"Events\":5}",
        LIST("5"),
        LIST("{\"EventId\":1}"),
        "{\"Events\":[{\"EventId\":\"E\",\"EventType\":\"Preempt\",\"Resources\":\"a\","
        "\"EventStatus\":\"Scheduled\",\"NotBefore\":\"\"}]}",
        LIST(EVENT("E9", "Preempt", "Scheduled", "a", "soon")),
        NULL,
    };
    start_azure(LIST(EVENT_OF_A("E1", "Preempt")));
    watch_until(&watch, watch.told == 1);
    answer_each(&cloud.events, answers);
    assert_int_equal(watch.told, 1);
}

/* --- all clouds --- */

TEST_IN(clouds, failed_query_is_repeated)
{
    cloud.broken = 500;
    watch.intervals.answer_ms = 200;
    watch_start(&watch, "aws,gce,azure");
    ask_some_more();
    cloud.is_mute = true;
    watch_for(&watch, 400);
    cloud.is_mute = false;
    cloud.broken = 0;
    set_azure(LIST(EVENT_OF_A("R1", "Reboot")));
    cloud.rebalance = REBALANCE;
    cloud.preempted = "TRUE";
    watch_until(&watch, watch.n[NOTICE_MAINTENANCE] && watch.n[NOTICE_REBALANCE] &&
                            watch.n[NOTICE_PREEMPT]);
}

TEST_IN(clouds, auto_queries_each_cloud_once)
{
    cloud.broken = 404;
    watch_start(&watch, "auto");
    watch_until(&watch, cloud.asked == 4); /* both requests for GCE */
    watch_for(&watch, 300);
    assert_int_equal(cloud.asked, 4);
    assert_int_equal(watch.told, 0);
}

TEST_IN(clouds, detected_cloud_is_polled)
{
    cloud.token = "";
    cloud.name = NULL;
    cloud.etag = "e";
    watch_start(&watch, "auto");
    ask_some_more();
    cloud.preempted = "TRUE";
    watch_until(&watch, watch.told == 1);
    assert_string_equal(watch.from, "gce");
    assert_int_equal(cloud.tokens, 1);
}

/* With --metadata-endpoint, a timeout does not prove that it is another cloud. */
TEST_IN(clouds, query_without_response_is_repeated_by_auto)
{
    cloud.is_mute = true;
    cloud.action = "terminate";
    watch.intervals.auto_ms = 20;
    watch.intervals.answer_ms = 300;
    watch_start(&watch, "auto");
    watch_until(&watch, cloud.asked > 4);
    assert_int_equal(watch.told, 0);
    cloud.is_mute = false;
    watch_until(&watch, watch.n[NOTICE_PREEMPT] == 1);
}

/* A slow service responds after the first timeout each time. */
TEST_IN(clouds, slow_cloud_is_detected_by_auto)
{
    cloud.token = "";
    cloud.name = NULL;
    cloud.etag = "e";
    cloud.preempted = "TRUE";
    cloud.is_mute = true;
    watch.intervals.auto_ms = 20;
    watch.intervals.answer_ms = 500;
    watch_start(&watch, "auto");
    watch_until(&watch, cloud.asked >= 4);
    watch_for(&watch, 200);
    cloud.is_mute = false;
    watch_until(&watch, watch.told == 1);
    assert_string_equal(watch.from, "gce");
    /* The other clouds have returned 404. */
    assert_int_equal(cloud.tokens, 1);
}

/* --- facts about the machine --- */

#define DOCUMENT                                                                                   \
    "{\"region\":\"eu-west-1\",\"availabilityZone\":\"eu-west-1b\",\"instanceType\":\"p4d."        \
    "24xlarge\"}"

static void check_cloud(const char *name, const char *zone, const char *instance)
{
    watch_until(&watch, watch.clouds == 1);
    assert_string_equal(watch.cloud.cloud, name);
    assert_string_equal(watch.cloud.zone, zone);
    assert_string_equal(watch.cloud.instance, instance);
}

#define AZURE(fields)                                                                              \
    "{\"compute\":{\"name\":\"a\",\"location\":\"westeurope\",\"vmSize\":\"Standard_D4\"," fields  \
    "}}"

TEST_IN(machine, information_is_read_from_each_cloud)
{
    static const struct {
        const char *cloud, *document, *life;   /* AWS */
        const char *zone, *type, *preemptible; /* GCE */
        const char *name;                      /* Azure */
        const char *found_zone, *found_instance;
        bool has_spot, is_spot;
        unsigned abouts;
    } rows[] = {
        {.cloud = "aws",
         .document = DOCUMENT,
         .life = "spot",
         .found_zone = "eu-west-1b",
         .found_instance = "p4d.24xlarge",
         .has_spot = true,
         .is_spot = true,
         .abouts = 2},
        {.cloud = "aws",
         .document = DOCUMENT,
         .life = "on-demand",
         .found_zone = "eu-west-1b",
         .found_instance = "p4d.24xlarge",
         .has_spot = true,
         .abouts = 2},
        /* 404 is final */
        {.cloud = "aws", .found_zone = "", .found_instance = "", .abouts = 2},
        {.cloud = "gce",
         .zone = "projects/1/zones/us-central1-a\n",
         .type = "projects/1/machineTypes/a2-highgpu-1g",
         .preemptible = "TRUE",
         .found_zone = "us-central1-a",
         .found_instance = "a2-highgpu-1g",
         .has_spot = true,
         .is_spot = true,
         .abouts = 3},
        /* what makes no sense is asked for again */
        {.cloud = "gce",
         .zone = "projects/1/zones/\xc3\xa4",
         .type = "projects/1/machineTypes/",
         .preemptible = "PERHAPS",
         .found_zone = "",
         .found_instance = "",
         .abouts = 3 * 4},
        {.cloud = "azure",
         .name = AZURE("\"zone\":\"2\",\"priority\":\"Spot\""),
         .found_zone = "westeurope-2",
         .found_instance = "Standard_D4",
         .has_spot = true,
         .is_spot = true},
        {.cloud = "azure",
         .name = AZURE("\"zone\":\"\",\"priority\":\"\""),
         .found_zone = "westeurope",
         .found_instance = "Standard_D4",
         .has_spot = true},
        {.cloud = "azure",
         .name = AZURE("\"priority\":\"Low\""),
         .found_zone = "westeurope",
         .found_instance = "Standard_D4",
         .has_spot = true,
         .is_spot = true},
        {.cloud = "azure",
         .name = AZURE("\"zone\":\"1\""),
         .found_zone = "westeurope-1",
         .found_instance = "Standard_D4"},
    };
    cloud.events = LIST("");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cloud.document = rows[i].document;
        cloud.life = rows[i].life;
        cloud.zone = rows[i].zone;
        cloud.type = rows[i].type;
        cloud.preemptible = rows[i].preemptible;
        cloud.name = rows[i].name;
        watch.clouds = cloud.abouts = cloud.tokens = 0;
        watch_start(&watch, rows[i].cloud);
        check_cloud(rows[i].cloud, rows[i].found_zone, rows[i].found_instance);
        assert_int_equal(watch.cloud.has_spot, rows[i].has_spot);
        assert_int_equal(watch.cloud.is_spot, rows[i].is_spot);
        ask_some_more();
        assert_int_equal(watch.clouds, 1);
        assert_int_equal(cloud.abouts, rows[i].abouts);
        assert_in_range(cloud.tokens, 0, 1);
        notice_watch_free(watch.notices);
        watch.notices = NULL;
    }
}

TEST_IN(machine, busy_service_is_queried_again)
{
    cloud.document = DOCUMENT;
    cloud.life = "spot";
    cloud.dull = 3;
    watch_start(&watch, "aws");
    check_cloud("aws", "eu-west-1b", "p4d.24xlarge");
    assert_int_equal(cloud.abouts, 5);
}

TEST_IN(machine, notice_is_sent_while_machine_information_is_pending)
{
    cloud.document = DOCUMENT;
    cloud.dull = INT_MAX;
    cloud.action = "terminate";
    watch.intervals.info_ms = 60000;
    watch_start(&watch, "aws");
    watch_until(&watch, watch.told == 1 && cloud.abouts == 1);
    assert_int_equal(watch.clouds, 0);
}
