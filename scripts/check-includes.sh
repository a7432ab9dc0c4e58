#!/bin/sh
# Usage: check-includes.sh SOURCE_DIR
# Checks #include lines against the layers: a folder may include only headers of the folders listed beside it.
set -eu
cd "$1"
fail=0
check() { # folder (recursively) or files, allowed regex
    # shellcheck disable=SC2086 # files are a pattern
    bad=$(grep -rnHE --include='*.[ch]' '^#include "' $1 | grep -vE "$2" || true)
    if [ -n "$bad" ]; then
        printf 'layers: includes against the table:\n%s\n' "$bad" >&2
        fail=1
    fi
}
q='#include "'
check common/base "$q"'common/base/'
check common/text "$q"'common/(base|text)/'
check common/message "$q"'(common/(base|text|message)/|common/handshake/seal\.h|tfe\.pb-c\.h)'
check common/cli "$q"'common/(base|text|message|cli)/'
check common/handshake "$q"'common/(base|message|handshake)/'
check common/channel "$q"'common/(base|text|message|cli|handshake|channel)/'
check common/credentials "$q"'common/(base|text|message|cli|handshake|channel|credentials)/'
check common/records "$q"'common/(base|text|message|channel|credentials|records)/'
check common/job "$q"'common/(base|text|message|channel|job)/'
check common/archive "$q"'common/(base|text|archive)/'
check server/core "$q"'(common/(base|text|message)|server/core)/'
check server/scheduler "$q"'(common/(base|text|message)|server/scheduler)/'
check agent/core "$q"'(common/(base|text|message)|agent/core)/'
# The agent's I/O modules, as drawn in agent/CMakeLists.txt. Only pool/ among them includes files of agent/.
lib='common/(base|text|message|cli|handshake|credentials|channel)'
check agent/os "$q($lib"'|agent/os)/'
check agent/output "$q($lib"'|agent/(output|os))/'
check agent/guard "$q($lib"'|agent/(guard|os))/|agent/core/proof_condition\.h'
check agent/script_channel "$q($lib"'|agent/(script_channel|os))/'
check agent/preemption "$q($lib"'|agent/(preemption|core|os))/'
check agent/trainer "$q($lib"'|agent/(trainer|core|guard|output|os))/'
check agent/pool "$q($lib"'|common/(archive|job)|agent/(pool|preemption|trainer|guard|core|output|os))/|agent/(agent_settings|health|server_report|uplink)\.h'
check 'agent/*.[ch]' "$q($lib"'|agent(/[a-z_]+)?)/'
check server/ctl "$q($lib"'|common/(records|job|archive)|server/ctl)/'
check server/ctl/jobs "$q"'(common/(base|text|channel|job)|server/ctl/jobs)/'
check server/web "$q($lib"'|common/(records|job)|server/(web|sandbox))/'
bad=$(find server -name '*.[ch]' -not -path '*/core/*' -not -path '*/ctl/*' -not -path '*/web/*' -exec grep -nHE '^#include "' {} + |
    grep -vE "$q($lib|common/(records|job)|server)/" || true)
if [ -n "$bad" ]; then
    printf 'layers: includes against the table:\n%s\n' "$bad" >&2
    fail=1
fi
# Only the owning file accesses the fields of a part; other files use its header.
bad=$(grep -nE 'a->(link|preparation|tables|work|progress|notices|processes)\.' agent/core/*.c || true)
if [ -n "$bad" ]; then
    printf 'layers: fields of another part of the core:\n%s\n' "$bad" >&2
    fail=1
fi
# Only the codec uses generated protobuf code, and only I/O modules use libevent and jansson.
bad=$(grep -rlE --include='*.[ch]' 'tfe\.pb-c\.h' common/base common/channel/channel*.[ch] server agent || true)
bad=$bad$(grep -rlE --include='*.[ch]' '<event2/' common/message server/core server/scheduler agent/core || true)
bad=$bad$(grep -rlE --include='*.[ch]' '<jansson\.h>' common/base common/text common/message common/cli common/handshake common/channel common/credentials server/core agent/core || true)
bad=$bad$(grep -rlE --include='*.[ch]' '<yaml\.h>' common server agent | grep -v '^server/ctl/jobs/' || true)
if [ -n "$bad" ]; then
    echo "layers: library headers in the wrong folder: $bad" >&2
    fail=1
fi
exit $fail
