# shellcheck shell=bash disable=SC2034,SC2016
# scripts/lib/common.sh: functions shared by setup.sh, test.sh and demo.sh. Sourced by bash, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
build_dir=$root/build
venv_python=$root/.venv/bin/python

# Settings of the caller's own fleet must not reach the programs that are built and tested here.
for name in $(compgen -e); do
    case $name in
        TFE_* | TF_CONFIG) unset "$name" ;;
    esac
done

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# The only child at any moment; on_signal passes a signal of the script on to it and waits for it.
child=
on_signal() { # name, exit code
    trap '' INT TERM HUP
    # Uses the shell's job table: the signal may have arrived before the child's pid was stored.
    child=$(jobs -p)
    if [ -n "$child" ]; then
        kill -TERM $child 2>/dev/null || true
        wait $child 2>/dev/null || true
    fi
    printf '\n%s: ended by SIG%s\n' "${0##*/}" "$1" >&2
    exit "$2"
}
trap 'on_signal INT 130' INT
trap 'on_signal TERM 143' TERM
trap 'on_signal HUP 129' HUP

# supervised COMMAND…: runs the command and returns its exit status. Processes that it leaves behind are killed and
# count as a failure. (In the background, because bash runs no trap while it waits for a foreground child.)
supervise=$root/scripts/lib/supervise.py
supervised() {
    /usr/bin/python3 "$supervise" "$@" </dev/null &
    child=$!
    local status=0
    wait "$child" || status=$?
    child=
    return "$status"
}

# nested SCRIPT…: runs another script that sources this file and so forwards signals itself.
nested() {
    "$@" </dev/null &
    child=$!
    local status=0
    wait "$child" || status=$?
    child=
    return "$status"
}

# logged SENTENCE LOG COMMAND…: runs the command with its output in build/LOG and prints SENTENCE every few seconds
# meanwhile, on a terminal on one line. Prints the end of the output if the command fails.
logged() {
    local sentence=$1 log=$build_dir/$2 began=$SECONDS status=0 turn=0
    shift 2
    mkdir -p "$build_dir"
    if [ -x /usr/bin/python3 ]; then
        set -- /usr/bin/python3 "$supervise" --quiet "$@"
    fi # not installed yet
    "$@" </dev/null >"$log" 2>&1 &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        if [ -t 1 ]; then
            printf '\r%s … %d s ' "$sentence" $((SECONDS - began))
        elif [ $((turn % 20)) = 0 ]; then
            say "$sentence … $((SECONDS - began)) s"
        fi
        turn=$((turn + 1))
        sleep 0.25
    done
    wait "$child" || status=$?
    child=
    if [ -t 1 ]; then
        printf '\n'
    fi
    if [ "$status" != 0 ]; then
        tail -n 60 "$log" >&2
        say "$sentence: failed; all of the output is in $log" >&2
    fi
    return "$status"
}

# build_preset NAME TARGETS [CMAKE OPTIONS…]: configures and builds into build/NAME; TARGETS is one word.
build_preset() {
    local preset=$1 targets=$2
    shift 2
    logged "building $preset" "build-$preset.log" sh -c '
        cd "$1" && preset=$2 targets=$3 && shift 3 &&
        cmake --preset "$preset" "$@" && cmake --build --preset "$preset" --target $targets' \
        sh "$root" "$preset" "$targets" "$@"
}
