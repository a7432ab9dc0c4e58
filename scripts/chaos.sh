#!/usr/bin/env bash
# Usage: chaos.sh [--seconds N] [--seed S] [--tensorflow]
# Injects random faults from one seed into a server, agents and trainers: kills, freezes, joins, drains, notices and
# server restarts. The training must end after exactly the expected steps, and no process or file may be left over.
# Prints `chaos seconds=… seed=… events=… epochs=… violations=…` and how to replay the run; exit 1 on violations.
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
