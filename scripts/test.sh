#!/usr/bin/env bash
# Usage: test.sh [--full] [STAGE…]
# Installs what is missing, builds with warnings as errors, runs every test. Stages, all by default:
#   install   cmake --install into a scratch prefix, and what must be in there
#   unit      unit tests (ctest), as users get the programs
#   unit-asan the same with address and undefined-behaviour sanitizers
#   sim       the simulator: a minute of random faults on all cores, with a seed of the commit's own
#   e2e       real processes (pytest)
#   e2e-asan  the same with sanitizers, without the tests marked heavy
#   py        the package for training scripts, without TensorFlow (pytest)
#   crash     a minute of kill -9 on a server whose agents come and go; the trainers' logs judge
#   chaos     half a minute (--full: 15) of random faults on agents, trainers, standbys and the server; training must end exact
#   bench     every benchmark of the server, at a twentieth of its size and judged loosely; half a minute of spot machines
#   recovery  how long TensorFlow's training stands still at a loss, beside what it takes by hand
#   preempt   the same for a machine that is warned, and that no step is lost
#   tf        real TensorFlow, the demo among it (pytest)
#   chaos-tf  as chaos (--full: 3 minutes), with TensorFlow's trainers: every sample of every pass once, whatever was killed
# --full: the long versions of tests that have one (TFE_TEST_FULL=1), and heavy ones with sanitizers too.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

all=(install unit unit-asan sim e2e e2e-asan crash chaos py bench recovery preempt tf chaos-tf)
chosen=()
full=
for argument in "$@"; do
    case $argument in
        --full) full=1 ;;
        -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
        *)
            case " ${all[*]} " in
                *" $argument "*) chosen+=("$argument") ;;
                *) say "test.sh: no stage $argument (there are: ${all[*]})" >&2; exit 2 ;;
            esac
            ;;
    esac
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${all[@]}")
if [ -n "$full" ]; then
    export TFE_TEST_FULL=1
fi

export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1

run_pytest() { # folder, options…
    local folder=$1
    shift
    supervised "$venv_python" -m pytest -p no:cacheprovider -ra --durations=5 "$@" "$root/tests/$folder"
}
run_ctest() { # preset
    supervised ctest --test-dir "$build_dir/$1" --output-on-failure --no-tests=error
}

quick_bench() { # name
    TFE_BIN_DIR=$build_dir/default supervised "$venv_python" "$root/bench/$1.py" --quick --out "$build_dir/bench/$1.json"
}

stage_install() {
    local prefix=$build_dir/prefix program page
    rm -rf "$prefix"
    supervised cmake --install "$build_dir/default" --prefix "$prefix" >"$build_dir/install.log" || return 1
    for program in tfe-rdzv tfe-agent tfe-ctl; do
        "$prefix/bin/$program" --version || return 1
        page=$(find "$prefix/share/man" -name "$program.*" -size +0 -print -quit 2>/dev/null)
        [ -n "$page" ] || { say "no man page of $program was installed"; return 1; }
    done
    page=$(find "$prefix" -name digits.py -size +0 -print -quit)
    [ -n "$page" ] || { say "the examples were not installed"; return 1; }
    [ -s "$prefix/share/tfe/python/tfe/__init__.py" ] && [ -e "$prefix/share/tfe/python/tfe/py.typed" ] ||
        { say "the package for training scripts was not installed"; return 1; }
    say "installed: $(find "$prefix" -type f | wc -l) files"
}
stage_unit() { run_ctest default; }
stage_unit-asan() { run_ctest asan; }
stage_sim() {
    local commit
    commit=$(git -C "$root" rev-parse HEAD 2>/dev/null) || commit=1 # unpacked, not cloned
    nested "$root/scripts/explore.sh" --seconds 60 --seed $((16#${commit:0:10})) \
        --explorer "$build_dir/default/tests/sim/sim_explore"
}
# Tests with processes wait more than they work: three side by side.
beside=(-n 3 --dist loadfile)
stage_e2e() { TFE_BIN_DIR=$build_dir/default run_pytest e2e "${beside[@]}"; }
stage_e2e-asan() {
    local options=()
    [ -n "$full" ] || options=(-m "not heavy")
    TFE_BIN_DIR=$build_dir/asan run_pytest e2e "${beside[@]}" "${options[@]}"
}
stage_crash() {
    local commit
    commit=$(git -C "$root" rev-parse HEAD 2>/dev/null) || commit=2
    nested "$root/scripts/crash.sh" --seconds 60 --seed $((16#${commit:0:8})) --kills 15
}
chaos() { # options…
    local commit
    commit=$(git -C "$root" rev-parse HEAD 2>/dev/null) || commit=3
    nested "$root/scripts/chaos.sh" --seed $((16#${commit:0:8})) "$@"
}
stage_chaos() {
    local seconds=30
    [ -z "$full" ] || seconds=900
    chaos --seconds "$seconds"
}
stage_chaos-tf() {
    local seconds=45
    [ -z "$full" ] || seconds=180
    chaos --seconds "$seconds" --tensorflow
}
stage_py() { run_pytest py; }
stage_bench() {
    local name failed=0
    for name in core wire scale handover soak churn; do
        # Twice, because whatever else runs on this machine is measured, too.
        quick_bench "$name" || quick_bench "$name" || failed=1
    done
    return $failed
}
stage_recovery() {
    local options=(--rounds 1 --loose --only peer_exit,agent_kill,join,drain)
    [ -z "$full" ] || options=(--loose)
    TFE_BIN_DIR=$build_dir/default supervised "$venv_python" "$root/bench/recovery.py" "${options[@]}" ||
        TFE_BIN_DIR=$build_dir/default supervised "$venv_python" "$root/bench/recovery.py" "${options[@]}"
}
stage_preempt() {
    local options=(--rounds 1 --loose)
    [ -z "$full" ] || options=(--loose)
    TFE_BIN_DIR=$build_dir/default supervised "$venv_python" "$root/bench/preempt.py" "${options[@]}" ||
        TFE_BIN_DIR=$build_dir/default supervised "$venv_python" "$root/bench/preempt.py" "${options[@]}"
}
stage_tf() { TFE_BIN_DIR=$build_dir/default run_pytest tf; }

report=()
failed=()
began=$SECONDS
nested "$root/scripts/setup.sh"
report+=("setup $((SECONDS - began)) s")

began=$SECONDS
build_preset default all -DTFE_WERROR=ON
case " ${chosen[*]} " in
    *-asan*) build_preset asan all -DTFE_WERROR=ON ;;
esac
report+=("build $((SECONDS - began)) s")

for stage in "${chosen[@]}"; do
    began=$SECONDS
    printf '\n=== %s\n' "$stage"
    if ! "stage_$stage"; then
        failed+=("$stage")
    fi
    report+=("$stage $((SECONDS - began)) s")
done

printf '\n'
printf '%s\n' "${report[@]}"
if [ ${#failed[@]} -gt 0 ]; then
    say "FAILED: ${failed[*]} ($SECONDS s)"
    exit 1
fi
say "all stages passed ($SECONDS s)"
