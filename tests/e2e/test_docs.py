"""The output of -h and the man pages have the same options. All programs must be built."""

import re
import subprocess

import pytest
from conftest import ROOT
from programs import clean_environment, program

PAGES = {"tfe-rdzv": "server/tfe-rdzv.8", "tfe-ctl": "server/ctl/tfe-ctl.1", "tfe-agent": "agent/tfe-agent.1",
         "tfe-web": "server/web/tfe-web.8"}


def help_of(*words):
    done = subprocess.run([program(words[0]), *words[1:], "-h"], capture_output=True, text=True, timeout=60,
                          env=clean_environment())
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def verbs():
    return re.findall(r"^  ([\w-]+(?: [\w-]+)?)  ", help_of("tfe-ctl").partition("Verbs")[2], re.M)


def helped(name):
    """Returns {option: short letter or ""} from -h; for tfe-ctl of every verb too."""
    texts = [help_of(name)]
    if name == "tfe-ctl":
        texts += [help_of(name, *verb.split()) for verb in verbs()]
    return {long: letter for text in texts
            for letter, long in re.findall(r"^  (?:-(\w), |    )--([a-z][a-z-]*)", text, re.M)}


def tagged(name):
    """Returns {option: short letter or ""} from the page's option lists."""
    text = (ROOT / PAGES[name]).read_text()
    return {long: letter for letter, long in
            re.findall(r"^\.It (?:Fl (\w) , )?Fl -([a-z][a-z-]*)", text, re.M)}


@pytest.mark.parametrize("name", PAGES)
def test_help_and_page_list_the_same_options(name):
    assert tagged(name) == helped(name)


@pytest.mark.parametrize("name", PAGES)
def test_defaults_in_help_are_in_the_page(name):
    page = (ROOT / PAGES[name]).read_text()
    for long, default in re.findall(r"--([a-z-]+)\S*  .*\(default ([^)]+)\)$", help_of(name), re.M):
        item = re.search(rf"^\.It .*Fl -{long}\b.*?(?=^\.It |^\.El)", page, re.M | re.S)[0]
        assert re.search(rf"(?<!\w){re.escape(default)}(?!\w)", item), (long, default)


def groups(text, heading, option):
    """Returns {option: heading above it}, without those that every program has."""
    found, title = {}, None
    for line in text.splitlines():
        if re.match(heading, line):
            title = re.match(heading, line)[1]
        elif re.match(option, line):
            found[re.match(option, line)[1]] = title
    return {option: title for option, title in found.items() if option not in ("help", "version")}


@pytest.mark.parametrize("name", ["tfe-rdzv", "tfe-agent", "tfe-web"])
def test_help_and_page_put_options_under_the_same_headings(name):
    helped_groups = groups(help_of(name), r"^(\w.*):$", r"^  (?:-\w, |    )--([a-z][a-z-]*)")
    page = (ROOT / PAGES[name]).read_text()
    assert helped_groups == groups(page, r"^\.Ss (.+)$", r"^\.It (?:Fl \w , )?Fl -([a-z][a-z-]*)")
    assert len(set(helped_groups.values())) > 3


def test_every_verb_is_in_the_page():
    page = (ROOT / PAGES["tfe-ctl"]).read_text()
    assert verbs()
    for verb in verbs():
        assert re.search(rf"^\.It Cm {verb}\b", page, re.M), verb


@pytest.mark.parametrize("name", PAGES)
def test_verbs_that_a_page_cites_exist(name):
    """Verbs cited in a page as "tfe-ctl token create", ".Cm tfe-ctl token rotate", ".Nm tfe-ctl Cm epochs"."""
    page = (ROOT / PAGES[name]).read_text()
    first = {verb.split()[0] for verb in verbs()}
    for words in re.findall(r"^\.(?:Pq |Dl )?(?:Cm|Ql|Nm|Li) tfe-ctl (?:Cm )?([a-z][a-z -]*)", page, re.M):
        word, _, rest = words.partition(" ")
        assert word in first, words
        second = {verb.split()[1] for verb in verbs() if verb.startswith(word + " ")}
        assert not second or not rest or rest.split()[0] in second, words


@pytest.mark.parametrize("name", PAGES)
def test_quotes_of_json_are_in_the_rendered_page(name):
    """A macro removes quotes around its arguments: those of JSON are written \\(dq."""
    lines = (ROOT / PAGES[name]).read_text().splitlines()
    assert [line for line in lines if re.match(r"\.[A-Z][a-z] .*[{\[]\"", line)] == []


def test_every_kind_of_event_is_in_the_docs():
    made = {kind for path in (ROOT / "server").rglob("*.c") for kind in re.findall(r'\.kind = "([a-z_]+)"', path.read_text())}
    composed = re.findall(r"case TRACE_([A-Z_]+):", (ROOT / "server/events/event_text.c").read_text())
    for row in (ROOT / "server/core/traces.h").read_text().split("    X(")[1:]:
        trace, name = re.match(r'([A-Z_]+), "([a-z_]+)"', row).groups()
        if "NULL)" not in row or trace in composed:
            made.add(name)
    made.remove("job_state")  # its event is called waiting
    page = (ROOT / "docs/operations.md").read_text()
    told = page.partition("\n## Job events\n")[2].partition("\n## ")[0]
    assert {"node_joined", "ordered", "slow", "job_finished"} <= made == set(re.findall(r"`([a-z_]+)`", told)) - {"info", "warn", "error"}


@pytest.mark.parametrize("option", ["rdzv-backend", "rdzv-conf", "node-rank", "master-addr", "master-port", "log-dir",
                                    "tee", "rdzv-id", "redirects", "role", "local-addr", "local-ranks-filter",
                                    "start-method"])
def test_habits_of_torchrun_are_in_the_agents_page_and_accepted(option):
    assert f"Fl -{option}" in (ROOT / PAGES["tfe-agent"]).read_text()
    done = subprocess.run([program("tfe-agent"), f"--{option}=1", "-h"], capture_output=True, text=True, timeout=60,
                          env=clean_environment())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_clean_mdoc(name):
    """groff reports no warning, and the page has its sections."""
    path = ROOT / PAGES[name]
    done = subprocess.run(["groff", "-mdoc", "-Tutf8", "-ww", "-z", str(path)], capture_output=True, text=True,
                          timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    sections = re.findall(r"^\.Sh (.+)$", path.read_text(), re.M)
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "ENVIRONMENT", "FILES", "EXIT STATUS", "EXAMPLES", "SEE ALSO"):
        assert section in sections


def test_every_event_that_asks_for_somebody_is_explained():
    """The docs explain everything logged at warn and error, and every cause of an epoch: meaning and remedy."""
    sources = "".join(path.read_text() for room in ("agent", "common", "server") for path in (ROOT / room).rglob("*.[ch]"))
    told = set(re.findall(r'log_(?:warn|error)\(\s*"([a-z_]+)"', sources))
    told |= set(re.findall(r'X\([A-Z_]+, "([a-z_]+)", (?:WARN|ERROR),', sources))
    told |= set(re.findall(r'\.kind = "([a-z_]+)",\s*\.level = [^,;]*EVENT_(?:WARN|ERROR)', sources))
    told |= set(re.findall(r'\.event = "([a-z_]+)",\s*\.end_event = ', sources))
    causes = set(re.findall(r'X\(CAUSE_\w+, \d+, "(\w+)"\)', sources))
    assert len(told) > 40 and len(causes) == 11
    page = (ROOT / "docs/operations.md").read_text()
    explained = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\|[^|]*\|", page, re.M))))
    assert told | causes <= explained, sorted((told | causes) - explained)
    assert not {word for word in explained - told - causes if "_" in word}, "nothing says that any more"
