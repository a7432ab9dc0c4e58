#!/bin/sh
# Usage: check-includes.sh SOURCE_DIR
# The layer table for #include lines: a room may include headers of the rooms listed beside it only.
set -eu
cd "$1"
fail=0
check() { # room (a folder with all below it) or files, allowed regex
    # shellcheck disable=SC2086 # files are a pattern
    bad=$(grep -rnHE --include='*.[ch]' '^#include "' $1 | grep -vE "$2" || true)
    if [ -n "$bad" ]; then
        printf 'layers: includes against the table:\n%s\n' "$bad" >&2
        fail=1
    fi
}
q='#include "'
check common/base "$q"'common/base/'
check common/wire "$q"'(common/(base|wire)/|tfe\.pb-c\.h)'
check common/net "$q"'common/(base|wire|net)/'
check common/rows "$q"'common/(base|net|rows)/'
check common/client "$q"'common/(base|net|rows|client)/'
check common/jobs "$q"'common/(base|net|jobs)/'
check common/archive "$q"'common/(base|net|archive)/'
check server/core "$q"'(common/base|server/core)/'
check server/placement "$q"'(common/base|server/placement)/'
check agent/core "$q"'(common/base|agent/core)/'
# The rooms of the agent's shell: agent/CMakeLists.txt draws them. Of them pool/ alone includes the shell.
check agent/reach "$q"'(common/(base|net)|agent/reach)/'
check agent/output "$q"'(common/(base|net)|agent/(output|reach))/'
check agent/guard "$q"'(common/(base|net)|agent/(guard|reach))/|agent/core/death\.h'
check agent/scripts "$q"'(common/(base|net)|agent/(scripts|reach))/'
check agent/notice "$q"'(common/(base|net)|agent/(notice|core))/'
check agent/trainers "$q"'(common/(base|net)|agent/(trainers|core|guard|output|reach))/'
check agent/pool "$q"'(common/(base|wire|net|archive)|agent/(pool|notice|trainers|guard|core|output|reach))/|agent/(settings|report|uplink)\.h'
check 'agent/*.[ch]' "$q"'(common/(base|net)|agent(/[a-z]+)?)/'
check server/ctl "$q"'(common/(base|wire|net|rows|client|jobs|archive)|server/ctl)/'
check server/ctl/jobs "$q"'(common/(base|net|jobs)|server/ctl/jobs)/'
check server/web "$q"'(common/(base|wire|net|rows|client|jobs)|server/web)/|server/(rights|sandbox)\.h'
bad=$(find server -name '*.[ch]' -not -path '*/core/*' -not -path '*/ctl/*' -not -path '*/web/*' -exec grep -nHE '^#include "' {} + |
    grep -vE "$q(common/(base|wire|net|rows)|server)/" || true)
if [ -n "$bad" ]; then
    printf 'layers: includes against the table:\n%s\n' "$bad" >&2
    fail=1
fi
# A part's fields belong to its own file: the door and the handlers go through its header.
bad=$(grep -nE 'a->(link|ready|tables|work|progress|notices|processes)\.' agent/core/*.c || true)
if [ -n "$bad" ]; then
    printf 'layers: fields of another part of the core:\n%s\n' "$bad" >&2
    fail=1
fi
# Generated protobuf code stays behind the codec, libcurl in tfe_net; libevent and jansson behind the shells.
bad=$(grep -rlE --include='*.[ch]' 'tfe\.pb-c\.h' common/base common/net server agent || true)
bad=$bad$(grep -rlE --include='*.[ch]' '<event2/' common/base common/wire server/core agent/core || true)
bad=$bad$(grep -rlE --include='*.[ch]' '<curl/' common/base common/wire server agent || true)
bad=$bad$(grep -rlE --include='*.[ch]' '<jansson\.h>' common/base common/wire common/net server/core agent/core || true)
bad=$bad$(grep -rlE --include='*.[ch]' '<yaml\.h>' common server agent | grep -v '^server/ctl/jobs/' || true)
if [ -n "$bad" ]; then
    echo "layers: library headers in the wrong room: $bad" >&2
    fail=1
fi
exit $fail
