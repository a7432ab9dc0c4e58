#!/bin/sh
# Usage: check-includes.sh SOURCE_DIR
# The layer table for #include lines: a room may include headers of the rooms listed beside it only.
set -eu
cd "$1"
fail=0
check() { # room, allowed regex
    bad=$(grep -rnE --include='*.[ch]' '^#include "' "$1" | grep -vE "$2" || true)
    if [ -n "$bad" ]; then
        printf 'layers: includes against the table:\n%s\n' "$bad" >&2
        fail=1
    fi
}
q='#include "'
check common/base "$q"'common/base/'
check common/wire "$q"'(common/(base|wire)/|tfe\.pb-c\.h)'
check common/net "$q"'common/(base|wire|net)/'
check server/core "$q"'(common/base|server/core)/'
check agent/core "$q"'(common/base|agent/core)/'
check server/ctl "$q"'(common/(base|wire|net)|server/ctl)/'
for dir in server agent; do
    bad=$(find "$dir" -name '*.[ch]' -not -path '*/core/*' -not -path '*/ctl/*' -exec grep -nHE '^#include "' {} + |
        grep -vE "$q(common/(base|wire|net)|$dir)/" || true)
    if [ -n "$bad" ]; then
        printf 'layers: includes against the table:\n%s\n' "$bad" >&2
        fail=1
    fi
done
# Generated protobuf code stays behind the codec; libevent behind tfe_net and the shells.
bad=$(grep -rlE --include='*.[ch]' 'tfe\.pb-c\.h' common/base common/net server agent || true)
bad=$bad$(grep -rlE --include='*.[ch]' '<event2/' common/base common/wire server/core agent/core || true)
if [ -n "$bad" ]; then
    echo "layers: library headers in the wrong room: $bad" >&2
    fail=1
fi
exit $fail
