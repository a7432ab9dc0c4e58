/* tests/unit/agent_core/test_probe.c: answering other nodes' probes before an epoch,
 * and probing others. */
#include "tests/unit/agent_core/bench.h"

static void prepare_answering(struct bench *b, uint64_t epoch, bool answer)
{
    hears(b,
          (struct tfe_msg){.type = MSG_PREPARE, .u.prepare = {.epoch = epoch, .answer = answer}});
}

TEST_IN(answer, request_of_an_older_connection_does_not_stop_responses)
{
    /* Bug: if the guard restarted between WELCOME and PREPARE, the node sent READY as requested
     * on the previous connection. It became a member of the epoch before it learned that it
     * should answer probes. */
    struct bench *b = a_joined_bench(1);
    prepare_answering(b, 1, false);
    ports_held(b, 1);
    lost(b, AGENT_LINK_LOST);
    pass(b, 1000);
    connected(b);
    welcome(b);
    does(b, (struct agent_event){.type = AGENT_GUARD_LOST});
    does(b, (struct agent_event){.type = AGENT_GUARD, .guard_pid = 51});
    assert_not_saw(b, "READY");
    prepare_answering(b, 1, true);
    assert_string_equal(b->log, "ANSWER 7000\n"
                                "READY epoch=1 me:7000 answering\n"
                                "~ready epoch=1 number=0 -\n");
}

static struct msg_probe a_probe(uint64_t id)
{
    static const uint16_t ports[] = {1, 65535};
    return (struct msg_probe){.probe = id,
                              .kind = PROBE_SUSPECT,
                              .node = "x",
                              .host = "there",
                              .ports = ports,
                              .n_ports = 2};
}

TEST_IN(probe, invalid_probe_is_refused)
{
    struct bench *b = a_joined_bench(1);
    char host[TFE_HOST_MAX + 2];
    memset(host, 'h', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    for (int i = 0; i < 6; i++) {
        struct tfe_msg msg = {.type = MSG_PROBE, .u.probe = a_probe(1)};
        struct msg_probe *p = &msg.u.probe;
        switch (i) {
        case 0:
            p->node = NULL;
            break;
        case 1:
            p->node = "no id";
            break;
        case 2:
            p->host = NULL;
            break;
        case 3:
            p->host = host;
            break;
        case 4:
            p->n_ports = 0;
            break;
        default:
            p->n_ports = MSG_NPROC_MAX + 1;
            break;
        }
        assert_int_equal(act(b, (struct agent_event){.type = AGENT_MESSAGE, .msg = &msg}),
                         TFE_EINVAL);
    }
}

TEST_IN(death, proof_is_announced_until_its_guard_is_lost)
{
    struct bench *b = bench_new(1, 1);
    b->config.guard_port = 99;
    assert_int_equal(id_set(&b->config.proof_hash, "hash"), 0);
    b->config.proofs[0] = "found";
    begin(b);
    connected(b);
    assert_saw(b, " death=hash:99");
    welcome(b);
    assert_saw(b, "DEATH found\n"); /* probe of an earlier agent on this machine */
    does(b, (struct agent_event){.type = AGENT_GUARD_LOST});
    does(b, (struct agent_event){.type = AGENT_GUARD, .guard_pid = 51});
    lost(b, AGENT_LINK_LOST);
    pass(b, 5000);
    connected(b);
    assert_saw(b, "JOIN");
    assert_not_saw(b, "death=");
}
