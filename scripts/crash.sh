#!/usr/bin/env bash
# Usage: crash.sh [--seconds N] [--seed S] [--kills N]
# Kills a server at random instants, also during a commit, while 20 agents come and go, and checks their trainers' logs.
# Prints `kills=… epochs=… violations=…`; exit 1 on violations or after fewer than N kills (default 1).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

case ${1:-} in
    -h | --help) sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
if [ ! -x "$build_dir/default/tests/crash/fake_trainer" ]; then
    nested "$root/scripts/setup.sh"
    build_preset default all
fi
TFE_BIN_DIR=$build_dir/default supervised python3 "$root/tests/crash/crash.py" "$@"
