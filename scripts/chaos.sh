#!/usr/bin/env bash
# Usage: chaos.sh [--seconds N] [--seed S] [--tensorflow]
# Random faults from one seed on a server, agents and their trainers: kills, freezes, joins, drains, notices, restarts of
# the server. Then training has to end with exactly the steps it should have, and nothing may be left over.
# Ends with `chaos seconds=… seed=… events=… epochs=… violations=…`; exit 1 if there were any. Says how to replay it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

case ${1:-} in
    -h | --help) sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
if [ ! -x "$build_dir/default/agent/tfe-agent" ] || [ ! -x "$venv_python" ]; then
    nested "$root/scripts/setup.sh"
    build_preset default all
fi
TFE_BIN_DIR=$build_dir/default supervised "$venv_python" "$root/tests/chaos/chaos.py" "$@"
