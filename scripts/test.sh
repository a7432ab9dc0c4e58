#!/usr/bin/env bash
# Usage: test.sh [--gate | --full] [STAGE[,STAGE…]…]
# Installs missing packages, builds with warnings as errors, and runs the tests. Without options, the stages for daily work
# (5 minutes):
#   unit      unit tests, the simulator's scenarios and the source checks (ctest), with the programs as users get them
#   sim       the simulator: random faults for 20 s on all cores, half of it from a fixed seed, half from the commit's seed
#   py        the Python package without TensorFlow (pytest)
#   train     real TensorFlow trains, loses a machine and gains another (pytest)
#   e2e       real processes (pytest), without the tests marked heavy
# --gate: the stages that every change must pass (15 minutes). The stages above and
#   install   cmake --install into a scratch prefix, and a check of its contents
#   package   version, source tarball, completion, and the wheel of the last static build (pytest); with --full, all
#             packages
#             of scripts/package.sh, each in a clean system
#   unit-asan unit tests with address and undefined-behaviour sanitizers
#   tidy      the fatal checks of clang-tidy over the product
#   e2e-heavy the end-to-end tests that e2e leaves out
#   deploy    the fleet recipes of scripts/deploy by their own checkers; with --full also the slow ones (pytest)
#   jax       JAX and Keras on JAX train, lose processes and gain machines (pytest)
#   bugs      bugs planted in the cores: the simulator finds each of them by an expected rule
#   explore   the simulator for another minute, from the commit's seed
# --full: the gate's stages at full length (TFE_TEST_FULL=1) and (two hours on 2 cores)
#   e2e-asan  e2e with sanitizers
#   user      unit and part of e2e as an unprivileged user
#   speed     instructions per event of the simulator
#   crash     kill -9 of a server whose agents come and go; the trainers' logs are checked
#   chaos     random faults on agents, trainers, standbys and the server; the training must be exact
#   chaos-tf  the same with TensorFlow: every sample of every pass exactly once
#   soak      agents that come and go; memory and descriptors must not grow
#   bench     core, placement, wire, scale, flood and handover at a twentieth of their size, with relaxed goals
#   churn     spot machines that come and go: the share of useful time
#   recovery  how long TensorFlow training stops after a loss, compared with a restart by hand
#   preempt   the same for an announced loss, which must not lose a step
#   tf        all tests with real TensorFlow, including the demo (pytest)
#   fuzz      each fuzzer for 30 s
#   coverage  line coverage of both cores
# Only by name, before a release (hours, on an idle machine):
#   strict    the benchmarks at full size against their goals
# STAGE…: only these stages; stages joined by commas run at the same time.
#
# A failed test with real processes is repeated once, alone, after the other stages of its group have ended. If it passes
# then, it is listed under FLAKY with both outputs kept in build/flaky, and the run passes with at most 3 of them.
# Deterministic tests are never repeated. Skipped tests and the time of each stage are listed at the end.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# Stages joined by commas run at the same time: stages that mostly wait with stages that compute. A stage that measures
# time runs alone.
quick=(unit sim,py,train e2e)
gate=(install,package,unit-asan tidy,e2e-heavy jax,deploy bugs,explore)
long=(e2e-asan,user crash,speed,chaos,soak bench,churn recovery preempt tf chaos-tf fuzz coverage)
all=("${quick[@]}" "${gate[@]}" "${long[@]}")
names=("${all[@]//,/ }" strict)
chosen=()
default=("${quick[@]}")
full= gate_runs=
for argument in "$@"; do
    case $argument in
        --gate) default=("${quick[@]}" "${gate[@]}") gate_runs=1 ;;
        --full) default=("${all[@]}") full=1 gate_runs=1 ;;
        -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
        *)
            for stage in ${argument//,/ }; do
                case " ${names[*]} " in
                    *" $stage "*) ;;
                    *) say "test.sh: no stage $stage (there are: ${names[*]})" >&2; exit 2 ;;
                esac
            done
            chosen+=("$argument")
            ;;
    esac
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${default[@]}")
if [ -n "$full" ]; then
    export TFE_TEST_FULL=1
fi

export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
# A leaked block often has a stale pointer left on a stack or in a register; ignore those, so that the leak is found in
# every run.
export LSAN_OPTIONS=use_stacks=0:use_registers=0

# Tools that setup.sh --full unpacks.
export PATH=$PATH:$build_dir/tools

# The output of all stages, searched for skipped tests at the end.
output_log=$build_dir/output.log

nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs
    env "PATH=/usr/local/bin:/usr/bin:/bin:$build_dir/tools")
# Runs a command as an unprivileged user, in a temporary home directory.
as_nobody() { # COMMAND…
    local home status=0
    home=$(mktemp -d)
    chown 65534:65534 "$home"
    supervised "${nobody[@]}" "HOME=$home" "TMPDIR=$home" "TFE_BIN_DIR=${TFE_BIN_DIR:-}" "$@" || status=$?
    rm -rf "$home"
    return "$status"
}
# Runs a stage without privileges if root runs the gate, as developers run it as themselves.
as_people() { # COMMAND…
    if [ -n "$gate_runs" ] && [ "$(id -u)" = 0 ]; then
        as_nobody "$@"
    else
        supervised "$@"
    fi
}

pytest=("$venv_python" -m pytest -ra --durations=5)
pytest_dir=$build_dir/pytest # NAME/v/cache/lastfailed: the failed tests of a run; NAME.status: its exit status
repeating=                   # set while the failed tests of a stage run again

# Runs pytest; in a repetition, the tests that failed in the run of the same name, one at a time.
run_pytest() { # name of the run, options…
    local name=$1 status=0
    shift
    if [ -n "$repeating" ]; then
        [ "$(cat "$pytest_dir/$name.status")" != 0 ] || return 0
        "${as:-supervised}" "${pytest[@]}" -o cache_dir="$pytest_dir/$name" -n 0 --last-failed \
            --last-failed-no-failures none "$@" || status=$?
        return "$status"
    fi
    rm -rf "${pytest_dir:?}/$name"
    mkdir -p "$pytest_dir/$name"
    [ -z "${as:-}" ] || [ "$(id -u)" != 0 ] || chown 65534:65534 "$pytest_dir/$name"
    "${as:-supervised}" "${pytest[@]}" -o cache_dir="$pytest_dir/$name" -n "${workers:-0}" "$@" || status=$?
    printf '%s\n' "$status" >"$pytest_dir/$name.status"
    return "$status"
}
ctests=(--output-on-failure --no-tests=error)
# Tests with processes wait for three quarters of their time, so three of them run per processor. The long tests of
# ctest wait for grace periods and disks for nine tenths of theirs.
at_a_time=$(($(nproc) * 3))
run_e2e() { # name of the run, preset, options…
    local name=$1 preset=$2
    shift 2
    TFE_BIN_DIR=$build_dir/$preset workers=$at_a_time run_pytest "$name" --dist worksteal "$@" "$root/tests/e2e"
}
# Tests without processes, sockets or waits: the same result in every run, so a failure is never repeated.
deterministic='^(lint|sim|fuzz)_|^unit_(agent_core|archive|handshake|job|message|records|scheduler|server_core|text)_|^unit_base_(rate|values|wheel)$'
run_ctest() { # preset, options…
    local status=0 dir=$build_dir/$1
    local failures=$dir/Testing/Temporary/LastTestsFailed.log
    if [ -n "$repeating" ]; then
        supervised ctest --test-dir "$dir" "${ctests[@]}" --rerun-failed -j 1 || status=$?
        return "$status"
    fi
    rm -f "$failures"
    supervised ctest --test-dir "$dir" "${ctests[@]}" -j $(($(nproc) + 2)) "${@:2}" || status=$?
    grep -h '^SKIPPED ' "$dir/Testing/Temporary/LastTest.log" || true
    return "$status"
}
# Prints the failed tests of a stage, one per line, if all of its failures may be repeated; else fails.
repeatable() { # stage
    local preset=default name found=
    case $1 in
        unit | unit-asan)
            [ "$1" = unit ] || preset=asan
            found=$(cut -d: -f2- "$build_dir/$preset/Testing/Temporary/LastTestsFailed.log" 2>/dev/null) || return 1
            ! grep -qE "$deterministic" <<<"$found" || return 1
            ;;
        e2e | e2e-heavy | e2e-asan | py | train | jax | deploy | tf)
            for name in "$1" "$1-by-hand"; do
                case $(cat "$pytest_dir/$name.status" 2>/dev/null) in
                    0 | "") ;;
                    1)
                        [ -s "$pytest_dir/$name/v/cache/lastfailed" ] || return 1
                        found+=$(/usr/bin/python3 -c 'import json, sys; print("\n".join(json.load(open(sys.argv[1]))))' \
                            "$pytest_dir/$name/v/cache/lastfailed")$'\n'
                        ;;
                    *) return 1 ;;
                esac
            done
            ;;
    esac
    found=${found%$'\n'}
    [ -n "$found" ] && printf '%s\n' "$found"
}
# Runs a benchmark again if it misses its goal (exit status 3), because the result depends on the load of this machine.
twice() { # COMMAND…
    local status=0
    "$@" || status=$?
    if [ "$status" = 3 ]; then
        say "SECOND TRY $*"
        status=0
        "$@" || status=$?
    fi
    return "$status"
}
quick_bench() { # name
    TFE_BIN_DIR=$build_dir/default supervised "$venv_python" "$root/bench/$1.py" --quick --out "$build_dir/bench/$1.json"
}
# Prints a seed derived from the commit's hash: it differs between commits and can be repeated.
commit_seed() { # digits to use without a repository
    local commit
    commit=$(git -C "$root" rev-parse HEAD 2>/dev/null) || commit=$2 # an unpacked tarball
    printf '%d' $((16#${commit:0:$1}))
}

stage_install() {
    local prefix=$build_dir/prefix program page
    rm -rf "$prefix"
    supervised cmake --install "$build_dir/default" --prefix "$prefix" >"$build_dir/install.log" || return 1
    for program in tfe-rdzv tfe-agent tfe-ctl tfe-web; do
        "$prefix/bin/$program" --version || return 1
        page=$(find "$prefix/share/man" -name "$program.*" -size +0 -print -quit 2>/dev/null)
        [ -n "$page" ] || { say "no man page of $program was installed"; return 1; }
    done
    page=$(find "$prefix" -name digits.py -size +0 -print -quit)
    [ -n "$page" ] || { say "the examples were not installed"; return 1; }
    [ -s "$prefix/share/tfe/python/tfe/__init__.py" ] && [ -e "$prefix/share/tfe/python/tfe/py.typed" ] ||
        { say "the package for training scripts was not installed"; return 1; }
    for page in share/doc/tfe/LICENSE share/tfe/job-file.schema.json share/tfe/monitoring/alerts.yml; do
        [ -s "$prefix/$page" ] || { say "$page was not installed"; return 1; }
    done
    ! grep -L "^ExecStart=$prefix/bin/" "$prefix"/lib/systemd/system/*.service | grep . ||
        { say "these units start programs of another prefix"; return 1; }
    say "installed: $(find "$prefix" -type f | wc -l) files"
}
stage_package() {
    local options=()
    [ -n "$full" ] || options=(-m "not heavy")
    run_pytest package "${options[@]}" "$root/tests/package"
}
stage_unit() { run_ctest default; }
stage_unit-asan() { run_ctest asan -LE lint; } # the lint checks read sources, so sanitizers do not apply
stage_tidy() {
    supervised nice ctest --test-dir "$build_dir/default" -C tidy -L tidy -j "$(nproc)" --output-on-failure --no-tests=error
}
explorer=$build_dir/default/tests/sim/sim_explore
stage_sim() {
    local seed
    for seed in 1 "$(commit_seed 10 1)"; do
        as_people nice "$root/scripts/explore.sh" --seconds 10 --seed "$seed" --explorer "$explorer" || return 1
    done
}
# Uses seeds far from those of sim.
stage_explore() {
    nested nice "$root/scripts/explore.sh" --seconds $((full ? 300 : 70)) --seed $(($(commit_seed 10 1) + 500000)) --explorer "$explorer"
}
stage_speed() {
    nested nice "$root/scripts/explore.sh" --speed --explorer "$explorer"
}
# The gate uses a fixed seed; --full takes five seeds of the commit for each bug.
stage_bugs() {
    local options=()
    [ -z "$full" ] || options=(--seed "$(commit_seed 8 1)" --turns 5)
    nested "$root/scripts/explore.sh" --bugs "${options[@]}"
}
stage_coverage() { nested "$root/scripts/coverage.sh"; }
stage_fuzz() { LSAN_OPTIONS='' nested "$root/scripts/fuzz.sh" --seconds 30; } # libFuzzer leaks by itself
stage_e2e() { run_e2e e2e default -m "not heavy"; }
stage_e2e-heavy() {
    # A mock of the AWS API on this machine and the AWS command-line tool: only the pool scaling tests need them.
    if [ -n "$full" ] && ! [ -x "$root/.venv-aws/bin/moto_server" ]; then
        /usr/bin/python3 -m venv "$root/.venv-aws"
        logged "installing moto and the AWS tools into .venv-aws" setup-aws.log \
            "$root/.venv-aws/bin/python" -m pip install 'moto[server]==5.1.22' awscli==1.46.3
    fi
    run_e2e e2e-heavy default -m heavy
}
stage_e2e-asan() {
    if [ -n "$full" ]; then
        run_e2e e2e-asan asan
    else
        # These tests are about Python code, which no sanitizer checks.
        run_e2e e2e-asan asan -m "not heavy" --ignore-glob '*/test_bootstrap.py' --ignore-glob '*/test_docs.py' --ignore-glob '*/test_hooks.py'
    fi
}
stage_user() {
    if [ "$(id -u)" != 0 ]; then
        say "SKIPPED user: all of this ran as user $(id -un), who is not root"
        return 0
    fi
    local tests status=0
    tests=$(mktemp -d)
    # Copies only the test descriptions: their logs go beside the copies, and the programs stay in place.
    (cd "$build_dir/default" && find . -name 'CTest*.cmake' -print0 | tar --null -cT - | tar -xC "$tests")
    chown -R 65534:65534 "$tests"
    as_nobody ctest --test-dir "$tests" -E "$deterministic" "${ctests[@]}" -j "$at_a_time" || status=1
    grep -h '^SKIPPED ' "$tests/Testing/Temporary/LastTest.log" || true
    rm -rf "$tests"
    TFE_BIN_DIR=$build_dir/default as_nobody "${pytest[@]}" -p no:cacheprovider -n "$at_a_time" -m "not heavy" \
        "$root"/tests/e2e/test_{membership,standalone,supervision,standby}.py || status=1
    return "$status"
}
stage_crash() {
    nested "$root/scripts/crash.sh" --seconds 30 --seed "$(commit_seed 8 2)" --kills 8
}
chaos() { # seconds, options…
    nested "$root/scripts/chaos.sh" --seed "$(commit_seed 8 3)" --seconds "$@"
}
stage_chaos() { chaos $((full ? 300 : 30)); }
stage_chaos-tf() { chaos $((full ? 180 : 45)) --tensorflow; }
stage_py() { as=as_people run_pytest py "$root/tests/py"; }
# The load has no priority over other processes here.
bench_as_nobody() { # name
    TFE_BIN_DIR=$build_dir/default as_nobody "$venv_python" "$root/bench/$1.py" --quick --out /dev/null
}
stage_bench() {
    local name failed=0
    for name in core placement wire scale flood handover; do
        twice quick_bench "$name" || failed=1
    done
    [ "$(id -u)" != 0 ] || twice bench_as_nobody scale || failed=1
    return $failed
}
stage_churn() { twice quick_bench churn; }
stage_soak() { twice quick_bench soak; }
stage_strict() {
    local name failed=0
    for name in core placement wire scale web flood handover soak churn recovery preempt roles pool; do
        nested "$root/scripts/bench.sh" "$name" --strict || failed=1
    done
    return $failed
}
trained_bench() { # name, options…
    local name=$1
    shift
    TFE_BIN_DIR=$build_dir/default supervised "$venv_python" "$root/bench/$name.py" --loose "$@"
}
stage_recovery() {
    local options=()
    if [ -n "$full" ]; then
        options=(--rounds 5)
    else
        options=(--rounds 1 --only peer_exit,agent_kill,join) # preempt has a planned leave
    fi
    twice trained_bench recovery "${options[@]}"
}
stage_preempt() {
    twice trained_bench preempt --rounds $((full ? 5 : 1))
}
stage_train() { TFE_BIN_DIR=$build_dir/default as=as_people run_pytest train "$root/tests/tf/test_training.py"; }
stage_deploy() {
    local heavy=(-m "not heavy")
    if [ -n "$full" ]; then
        "$root/scripts/deploy/tools.sh"
        heavy=()
    fi
    TFE_BIN_DIR=$build_dir/default run_pytest deploy "${heavy[@]}" "$root/tests/deploy"
}
# Tests with PyTorch are marked heavy.
stage_jax() {
    local options=()
    [ -n "$full" ] || options=(-m "not heavy")
    TFE_BIN_DIR=$build_dir/default run_pytest jax "${options[@]}" "$root/tests/jax"
}
# Two files at a time: importing TensorFlow is most of the work, and waiting for trainers a third of the time.
stage_tf() {
    local options=() status=0
    [ -n "$full" ] || options=(-m "not heavy")
    TFE_BIN_DIR=$build_dir/default workers=2 run_pytest tf --dist loadfile --deselect tf/test_training.py \
        --ignore "$root/tests/tf/test_roles_by_hand.py" "${options[@]}" "$root/tests/tf" || status=1
    # Its processes are forked from one that has imported only TensorFlow.
    run_pytest tf-by-hand "$root/tests/tf/test_roles_by_hand.py" || status=1
    return "$status"
}

# Runs stages at the same time and prints the output of each in one piece. A subshell has its own traps and children.
at_once() { # stage…
    local stage pids=()
    for stage in "$@"; do
        (
            trap 'on_signal TERM 143' TERM
            "stage_$stage"
        ) >"$build_dir/stage-$stage.out" 2>&1 &
        pids+=($!)
    done
    for stage in "$@"; do
        wait "${pids[0]}" || { failed+=("$stage"); say "failed: $stage"; }
        pids=("${pids[@]:1}")
        cat "$build_dir/stage-$stage.out"
    done
}

# Repeats the failed tests of each failed stage from the given one on, alone. Stages that pass then no longer count as
# failed.
flaky=()
flaky_max=3
repeat_failed() { # index into failed
    local stage tests still=("${failed[@]:0:$1}")
    for stage in "${failed[@]:$1}"; do
        if ! tests=$(repeatable "$stage") || [ "$(wc -l <<<"$tests")" -gt 10 ]; then
            still+=("$stage")
            continue
        fi
        say "REPEATING $stage: $(tr '\n' ' ' <<<"$tests")"
        mkdir -p "$build_dir/flaky"
        cp "$build_dir/stage-$stage.out" "$build_dir/flaky/$stage.first"
        repeating=1
        if "stage_$stage" >"$build_dir/flaky/$stage.alone" 2>&1; then
            mapfile -t -O ${#flaky[@]} flaky < <(sed "s/^/$stage /" <<<"$tests")
        else
            cp "$build_dir/flaky/$stage.alone" "$build_dir/stage-$stage.out"
            still+=("$stage")
        fi
        cat "$build_dir/flaky/$stage.alone"
        repeating=
    done
    failed=("${still[@]}")
}

# Prints the lines of a stage's output that name the failure, or the last lines.
decisive() { # output of a stage
    grep -aE '^(VIOLATION|replay:|FAILED|SECOND TRY|beyond:|E   )|\*\*\*(Failed|Timeout|Exception)|\[  FAILED  \]|error: |ERROR: ' "$1" ||
        tail -n 15 "$1"
}

# Adds up the processor time of ended children: a stage that used less than its wall time has waited.
count_work() {
    times >"$build_dir/times" # a subshell would print its own times
    worked=$(awk 'NR == 2 { gsub(/[ms]/, " "); printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }' "$build_dir/times")
}
begin() {
    count_work
    began=$SECONDS had_worked=$worked
}
end() { # name
    count_work
    report+=("$1 $((SECONDS - began)) s ($((worked - had_worked)) s of a processor)")
}

report=()
failed=()
mkdir -p "$build_dir"
begin
needs=--no-venv
for stage in ${chosen[*]//,/ }; do
    case $stage in
        install | unit | unit-asan | tidy | sim | explore | speed | bugs | fuzz) ;;
        e2e-heavy | e2e-asan | jax) needs=--full && break ;;
        *) needs= ;;
    esac
done
nested "$root/scripts/setup.sh" $needs
end setup

begin
build_preset default all -DTFE_WERROR=ON
case " ${chosen[*]} " in
    *-asan*) build_preset asan all -DTFE_WERROR=ON ;;
esac
end build

rm -rf "$output_log" "$build_dir/flaky"
for group in "${chosen[@]}"; do
    begin
    printf '\n=== %s\n' "$group"
    before=${#failed[@]}
    exec 3> >(tee -a "$output_log")
    tee=$!
    case $group in
        *,*) at_once ${group//,/ } >&3 3>&- ;;
        *) "stage_$group" > >(tee "$build_dir/stage-$group.out" >&3 3>&-) 2>&1 3>&- || failed+=("$group") ;;
    esac
    repeat_failed "$before" >&3 3>&-
    exec 3>&-
    wait "$tee" || true
    end "$group"
done

printf '\n'
if [ ${#flaky[@]} -gt 0 ]; then
    say "FLAKY: failed, and passed when repeated alone; both outputs are in ${build_dir#"$root/"}/flaky:"
    printf '  %s\n' "${flaky[@]}"
    [ ${#flaky[@]} -le $flaky_max ] || failed+=("more than $flaky_max flaky tests")
fi
if grep -hE '^(SKIPPED|SECOND TRY|NOT JUDGED) |\*\*\*Skipped' "$output_log" | sort -u >"$output_log.skipped"; then
    say "SKIPPED: not run, not judged, or judged in a second try:"
    sed 's/^/  /' "$output_log.skipped"
fi
printf '%s\n' "${report[@]}"
if [ ${#failed[@]} -gt 0 ]; then
    say "FAILED: ${failed[*]} ($SECONDS s)"
    for stage in "${failed[@]}"; do
        [ -e "$build_dir/stage-$stage.out" ] || continue
        say "--- $stage:"
        decisive "$build_dir/stage-$stage.out" | tail -n 15 | cut -c1-300
    done
    exit 1
fi
say "all stages passed ($SECONDS s)"
