"""SECURITY.md's table of attackers: each phrase of "can" and "cannot" has a scenario, here or in the file of its
subject."""

import contextlib
import re
import socket

import pytest
from conftest import ROOT
from pooled import spec
from raw_client import BAD_REQUEST, NOT_AUTHORISED, Closed, RawClient, node_secret

CELLS = []
for line in (ROOT / "SECURITY.md").read_text().partition("| attacker has | can | cannot |")[2].partition("\n\n")[0].splitlines()[2:]:
    has, can, cannot = (cell.strip() for cell in line.strip("|").split(" | "))
    CELLS += [(has, "can", phrase) for phrase in can.split("; ")] + [(has, "cannot", phrase) for phrase in cannot.split("; ")]


class World:
    """A server, and clients with one of its tokens."""

    def __init__(self, server, ctl, token):
        self.s, self.ctl, self.token = server("--gather=0.1"), ctl, token

    def key(self, role, scope=None, *options):
        return self.token(f"--role={role}", f"--job={scope}", *options) if scope else self.s.token(role)

    def says(self, role, name, fields=(), scope=None):
        """Returns the first response that is neither a row nor a table, or the code of a refusal."""
        with RawClient(self.s.port, self.key(role, scope), timeout=20) as client:
            client.send(name, fields)
            with contextlib.suppress(Closed):
                while True:
                    answer, got = client.receive()
                    if answer == "REFUSED":
                        return got[1][0]
                    if answer in ("DONE", "STATUS_END", "WELCOME"):
                        return answer
            return "closed"

    def joins(self, scope, job, name="n", **more):
        with RawClient(self.s.port, self.key("agent", scope), timeout=20) as client:
            answer, fields = client.join(name, job=job, **more)
            return answer if answer != "REFUSED" else fields[1][0]


def nothing_comes_back(world):
    with socket.create_connection(("127.0.0.1", world.s.port), timeout=20) as stranger:
        stranger.sendall(b"TFE1" + bytes(200))
        try:
            return stranger.recv(1) == b""
        except ConnectionResetError:
            return True


ORDERS = [("CANCEL", {1: "team-a-1"}), ("EVICT", {1: "label"}), ("DRAIN", {1: "label"}), ("FORGET", {1: "team-a-1"}),
          ("GROW", {1: "team-a-1"}), ("BACKUP", {1: "copy"}), ("SUBMIT", spec("team-a-9"))]  # fmt: skip


def no_orders(role, scope=None, orders=ORDERS):
    return lambda w: [(name, w.says(role, name, fields, scope)) for name, fields in orders] == [(n, NOT_AUTHORISED) for n, _ in orders]


def elsewhere(name):
    return f"test_{name}"


TEAM, ANOTHER = "team-a-*", {1: "team-b-1"}
ORDERS_OF_JOBS = [(name, ANOTHER) for name in ("CANCEL", "FORGET", "GROW", "SUSPEND")] + [("SUBMIT", spec("team-b-1"))]
SCENARIOS = {
    "the network alone": {
        "open connections": nothing_comes_back, "delay other clients without a token": elsewhere("flood.py::test_of_a_full_address_the_oldest_connection_goes"),
        "receive a byte": nothing_comes_back, "join a job": elsewhere("server.py::test_a_wrong_token_gets_not_one_byte"),
        "displace connections from other addresses": elsewhere("flood.py::test_strangers_of_one_address_keep_nobody_out"),
    },
    "`agent.token`": {
        "join any job": lambda w: w.joins(None, "team-a-1") == w.joins(None, "another") == "WELCOME",
        "open jobs": lambda w: w.joins(None, "fresh") == "WELCOME" and "fresh" in w.ctl("status").stdout,
        "see the members of its job": elsewhere("hostile.py::test_a_peer_of_another_making_is_a_member_like_any_other"),
        "act as another node": lambda w: w.joins(None, "team-a-1", f23=node_secret("other").hex()) == NOT_AUTHORISED,
        "give orders": no_orders("agent"), "see other jobs": no_orders("agent", orders=[("STATUS", {}), ("EPOCHS", {1: "j"})]),
        "displace the events of others": elsewhere("shares.py::test_jobs_of_one_key_do_not_take_the_newest_events_from_others"),
    },
    "an agent's token of some jobs": {
        "join those jobs": lambda w: w.joins(TEAM, "team-a-1") == "WELCOME",
        "join other jobs": lambda w: w.joins(TEAM, "team-b-1") == NOT_AUTHORISED,
        "open more nodes than its uses": elsewhere("tokens.py::test_a_token_of_one_use_is_for_one_node_over_all_its_connections"),
        "displace the metrics of others": elsewhere("shares.py::test_metrics_of_one_key_leave_memory_for_those_of_others"),
        "suppress events of others": elsewhere("shares.py::test_events_of_a_chosen_job_suppress_none_of_others"),
    },
    "`agent.key` of a machine": {
        "join with it for 7 days": elsewhere("node_keys.py::test_an_agent_gets_a_key_that_outlives_its_token_and_the_server"),
        "outlive `tfe-ctl revoke-agent`": elsewhere("node_keys.py::test_a_revoked_agent_is_out_at_once_and_its_token_is_not"),
    },
    "`observer.token`": {
        "see all jobs": lambda w: w.says("observer", "STATUS") == "STATUS_END",
        "read what the trainers print": elsewhere("ctl_logs.py::test_who_may_read_and_what_there_is"), "change anything": no_orders("observer"),
        "see keys, the deny list and the audit log": lambda w: all(
            w.ctl(*words, "--token", w.key("observer")).returncode == 77 for words in (("token", "list"), ("audit",), ("bans",))),
        "displace the sessions of others": elsewhere("shares.py::test_sessions_of_one_observer_leave_the_others_theirs"),
    },
    "an observer's token of some jobs": {
        "see those jobs": lambda w: w.says("observer", "EPOCHS", {1: "team-a-1"}, TEAM) != NOT_AUTHORISED,
        "see other jobs": lambda w: w.says("observer", "EPOCHS", ANOTHER, TEAM) == NOT_AUTHORISED,
        "displace the log readers of others": elsewhere("shares.py::test_readers_of_logs_leave_others_their_places"),
    },
    "`admin.token`": {
        "give any order": lambda w: NOT_AUTHORISED not in [w.says("admin", name, fields) for name, fields in ORDERS],
        "create and revoke tokens": lambda w: w.ctl("token", "create", "--label=x").returncode == w.ctl("token", "revoke", "x").returncode == 0,
        "read the audit log": lambda w: w.ctl("audit").returncode == 0, "back up": lambda w: w.ctl("backup", "one").returncode == 0,
        "write a file outside of `--backup-dir`": lambda w: {w.says("admin", "BACKUP", {1: name}) for name in ("../x", "..", "/tmp/x", ".x")}
        <= {"closed", BAD_REQUEST},
        "change the audit log": elsewhere("audit.py::test_the_chain_holds_over_restarts_and_shows_every_change"),
    },
    "an admin's token of some jobs": {
        "give orders about those jobs": lambda w: w.says("admin", "CANCEL", {1: "team-a-1"}, TEAM) != NOT_AUTHORISED,
        "run any program on the pool's machines": lambda w: w.says("admin", "SUBMIT", spec("team-a-5", "sh", "-c", "id"), TEAM) == "DONE",
        "give orders about other jobs": no_orders("admin", TEAM, ORDERS_OF_JOBS),
        "create tokens": lambda w: w.ctl("token", "create", "--token", w.key("admin", TEAM)).returncode == 77,
        "back up": no_orders("admin", TEAM, [("BACKUP", {1: "copy"})]),
        "submit with `preempt` or a priority above 500": lambda w: {
            w.says("admin", "SUBMIT", spec("team-a-6", **more), TEAM) for more in ({"preempt": True}, {"priority": 501})} == {BAD_REQUEST},
        "lock out the server's admin": elsewhere("shares.py::test_sessions_of_one_admin_of_some_jobs_lock_out_nobody"),
        "displace uploads of others": elsewhere("shares.py::test_stalled_uploads_stop_nobody_elses"),
        "displace remembered jobs of others": elsewhere("shares.py::test_who_hands_in_some_jobs_leaves_places_for_others"),
        "displace bundle streams of others": elsewhere("bundle.py::test_downloads_of_one_key_leave_streams_for_others"),
        "end denials of others": "unit/server/test_deny_list.c::full_list_drops_entries_of_the_operator_with_most",
        "fill the audit log": elsewhere("shares.py::test_orders_of_one_key_are_rows_of_the_audit_at_a_rate_and_the_rest_is_one_row"),
    },
    "a name for a job": {
        "choose 64 plain characters": lambda w: w.joins(None, "A_b.c-9" + 57 * "x") == "WELCOME",
        "leave `--log-dir`": elsewhere("agent_usage.py::test_usage_errors_are_one_sentence_and_exit_2"),
        "be parsed as an option": elsewhere("job_names.py::test_a_name_that_is_a_path_or_an_option_is_refused_by_every_program"),
        "use a label that is reserved for the server": elsewhere("pool_server.py::test_a_session_is_one_nodes_and_no_label_is_the_servers"),
    },
    "a job's pattern, command or output": {
        "cost its agent 50 ms of CPU a second": elsewhere("events.py::test_a_pattern_of_a_job_holds_no_agent_up"),
        "delay the renewal of the lease": elsewhere("events.py::test_a_pattern_of_a_job_holds_no_agent_up"),
        "control a terminal": elsewhere("words.py::test_what_a_trainer_prints_steers_no_terminal_of_its_agent"),
    },
    "a directory that an operator submits": {
        "choose which of its files are in the bundle": elsewhere("bundle.py::test_a_bundle_runs_on_four_nodes_and_is_sent_once"),
        "run a program of its git configuration":
            elsewhere("bundle.py::test_a_directorys_configuration_of_git_runs_nothing_of_whoever_submits_it"),
        "pack files of the operator outside of the directory": elsewhere("bundle.py::test_a_tracked_file_below_a_link_is_not_packed"),
    },
    "an image that a job names": {
        "run as `--trainer-user`": elsewhere("runtime.py::test_a_job_runs_in_its_image_as_the_trainers_user_and_leaves_nothing"),
        "run as another user or with its groups": elsewhere("runtime.py::test_a_hostile_image_never_acts_as_root"),
        "load code into the agent": elsewhere("runtime.py::test_a_hostile_image_never_acts_as_root"),
        "see a directory that this user may not enter":
            elsewhere("runtime.py::test_a_directory_that_is_replaced_while_the_container_starts_is_not_seen"),
        "control a terminal of the pool": elsewhere("runtime.py::test_what_an_image_prints_steers_no_terminal_of_the_pool"),
    },
    "the server's process": {
        "use what is in its directories": elsewhere("rights.py::test_root_becomes_the_user_before_anything_is_accepted"),
        "open other paths": "unit/sandbox/test_sandbox.c::closes_paths_where_the_kernel_can",
        "signal or limit other processes": "unit/sandbox/test_sandbox.c::refuses_what_no_server_does",
        "have a capability": elsewhere("rights.py::test_a_server_that_stays_root_has_no_capabilities"),
    },
    "training code as the agent's user": {
        "end agent and guard": elsewhere("supervision.py::test_agent_and_guard_killed_at_once"),
        "read memory of agent or guard": elsewhere("rights.py::test_processes_of_the_same_user_read_no_memory_of_agent_or_guard"),
    },
    "training code under `--trainer-user`": {
        "do all that this user can, damage its own job": elsewhere("trainer_user.py::test_a_script_tells_and_is_asked_over_the_channel"),
        "make root load a library or run a command in the job's directory":
            elsewhere("trainer_user.py::test_root_runs_and_loads_nothing_in_the_directory_of_a_job"),
        "reach token, agent or guard": elsewhere("trainer_user.py::test_training_code_cannot_reach_token_agent_or_guard"),
        "read root's environment": elsewhere("trainer_user.py::test_trainers_and_standbys_are_the_users_and_all_else_is_roots"),
    },
    "the state directory's files, as another user": {
        "put a pipe in the place of a file": elsewhere("node_keys.py::test_a_pipe_in_the_place_of_a_file_holds_no_start_up"),
        "block a start": elsewhere("node_keys.py::test_a_pipe_in_the_place_of_a_file_holds_no_start_up"),
        "make a program use secrets that others can read": elsewhere("rights.py::test_a_server_does_not_start_on_secrets_that_others_hold"),
    },
    "the civil clock of the server": {
        "end tokens early": "unit/server/test_keyring.c::an_expired_token_ends_sessions_and_opens_none",
        "make an expired token valid again": "unit/server/test_keyring.c::expired_token_stays_expired_after_a_clock_step_back",
    },
}


def test_each_scenario_is_of_a_phrase_of_the_table():
    assert len(CELLS) > 40
    assert {(has, phrase) for has, _, phrase in CELLS} == {(has, phrase) for has in SCENARIOS for phrase in SCENARIOS[has]}


@pytest.mark.parametrize("has, side, phrase", CELLS, ids=lambda text: re.sub(r"[^a-z]+", "-", text.lower()).strip("-")[:40])
def test_security_md_is_true(server, ctl, token, has, side, phrase):
    scenario = SCENARIOS[has][phrase]
    if isinstance(scenario, str):  # a test of its own
        file, _, name = scenario.partition("::")
        text = (ROOT / "tests" / (file if file.startswith("unit/") else f"e2e/{file}")).read_text()
        assert (f", {name})" if file.startswith("unit/") else f"def {name}(") in text, scenario
    else:
        assert scenario(World(server, ctl, token)) is True, (side, phrase)
