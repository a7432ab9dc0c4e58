#!/usr/bin/env bash
# Usage: setup.sh [--no-venv | --full]
# Installs the dependencies of the build, the tests and the demo: system packages (as root, with apt) and a virtual
# environment in .venv (not with --no-venv). --full adds the optional tools of the gate: chromium, podman, prometheus
# and JAX, and PyTorch if TFE_TEST_FULL is set; without them some tests are skipped by name. Does nothing if nothing is
# missing. test.sh and demo.sh call it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# --- system packages: detected by what they provide, so that other sources of the same tool count ------

missing=()
need() { # Debian package, test…
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}
have_cmake() {
    local version
    version=$(cmake --version 2>/dev/null | awk 'NR == 1 { print $3 }') || return 1
    [ -n "$version" ] && printf '3.25\n%s\n' "$version" | sort -V -C
}
have_header() { echo "#include <$1>" | cc -E - ; }
# Requires version 14: other versions diagnose and format differently.
have_clang() { # name
    "$1-14" --version >/dev/null 2>&1 || "$1" --version 2>/dev/null | grep -q 'version 14\.'
}
have_python() { /usr/bin/python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))'; }

find_missing() {
    missing=()
    need gcc command -v cc
    need libc6-dev have_header stdlib.h
    need cmake have_cmake
    need ninja-build command -v ninja
    need pkg-config command -v pkg-config
    need libevent-dev pkg-config --exists 'libevent_core >= 2.1.12' 'libevent_extra >= 2.1.12'
    need libsodium-dev pkg-config --exists 'libsodium >= 1.0.18'
    need libprotobuf-c-dev pkg-config --exists 'libprotobuf-c >= 1.4'
    need protobuf-c-compiler command -v protoc-c
    need libsqlite3-dev pkg-config --exists 'sqlite3 >= 3.40'
    need libjansson-dev pkg-config --exists 'jansson >= 2.14'
    need libpcre2-dev pkg-config --exists 'libpcre2-8 >= 10.36'
    need libyaml-dev pkg-config --exists 'yaml-0.1 >= 0.2.5'
    need libzstd-dev pkg-config --exists 'libzstd >= 1.4'
    need libncurses-dev pkg-config --exists 'ncursesw >= 6'
    need libssl-dev pkg-config --exists 'openssl >= 3.0' 'libevent_openssl >= 2.1.12'
    need libjs-chart.js test -e /usr/share/javascript/chart.js/chart.min.js
    need libseccomp-dev pkg-config --exists 'libseccomp >= 2.5'
    need libcmocka-dev pkg-config --exists 'cmocka >= 1.1.5'
    need libbsd-dev have_header bsd/sys/tree.h
    need sqlite3 command -v sqlite3 # the operating guide uses it to salvage a database
    need patch command -v patch # the tests plant bugs
    need groff-base command -v groff # the tests render the man pages
    need clang-format-14 have_clang clang-format
    need clang-tidy-14 have_clang clang-tidy
    need valgrind command -v valgrind # counts instructions
    need git command -v git # used by tfe-ctl and the agents for --bundle and --git
    need zstd command -v zstd # the tests unpack bundles
    need tmux command -v tmux # a terminal for tfe-ctl watch
    need python3-venv have_python
}

find_missing
if [ ${#missing[@]} -gt 0 ]; then
    . /etc/os-release 2>/dev/null || ID=unknown
    case " $ID ${ID_LIKE:-} " in
        *" debian "* | *" ubuntu "*) ;;
        *) die "this system lacks (names as in Debian): ${missing[*]}; install them and run this again" ;;
    esac
    if [ "$(id -u)" != 0 ]; then
        say "some packages are missing; run this, then try again:" >&2
        say "sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    # An interrupted installation leaves dpkg half-configured; otherwise this does nothing.
    logged "installing ${missing[*]}" setup-apt.log sh -c '
        dpkg --configure -a && apt-get update &&
        apt-get install -y --no-install-recommends "$@"' sh "${missing[@]}"
    find_missing
    [ ${#missing[@]} = 0 ] ||
        die "still missing or too old after installing: ${missing[*]} (Debian 12 or Ubuntu 24.04 and later have them)"
fi

[ "${1:-}" != --no-venv ] || exit 0

# --- optional tools of the gate ------------------------------------------------------------------------

# Only on Debian, as root: Ubuntu's chromium package installs a snap. Each tool is tried once, with a time limit; tests
# that need a missing tool are skipped by name.
install_optional() { # name, package…
    local name=$1 tried=$build_dir/tried-$1
    shift
    [ ! -e "$tried" ] || return 0
    mkdir -p "$build_dir"
    touch "$tried"
    logged "installing $name for the tests" "setup-$name.log" sh -c '
        export DEBIAN_FRONTEND=noninteractive
        apt_get() { limit=$1; shift; timeout "$limit" apt-get -o Acquire::http::Timeout=20 -o Acquire::Retries=1 "$@"; }
        set -- install -y --no-install-recommends "$@"
        { apt_get 600 --download-only "$@" || { apt_get 120 update && apt_get 600 --download-only "$@"; }; } && apt-get "$@"' \
        sh "$@" || say "no $name: the tests that need it are skipped"
}
# Unpacks the prometheus package instead of installing it, since the package would start a service.
install_prometheus() {
    local tried=$build_dir/tried-prometheus
    [ ! -e "$tried" ] || return 0
    mkdir -p "$build_dir/tools"
    touch "$tried"
    logged "unpacking prometheus for the tests" setup-prometheus.log sh -c '
        cd "$1" && rm -f prometheus_*.deb && { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; } &&
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/prometheus ./usr/bin/promtool &&
        rm -f prometheus_*.deb' sh "$build_dir/tools" ||
        say "no prometheus: the tests that need it are skipped"
}
if [ "${1:-}" = --full ] && [ "$(id -u)" = 0 ] && grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then
    { command -v chromium && command -v chromedriver; } >/dev/null ||
        install_optional chromium chromium chromium-driver fonts-dejavu-core
    { command -v debootstrap && command -v systemd-nspawn && command -v lintian && command -v dh && command -v fish; } >/dev/null ||
        install_optional packaging debootstrap systemd-container lintian dpkg-dev debhelper dh-python fakeroot zsh fish
    { command -v podman && command -v busybox; } >/dev/null ||
        install_optional podman podman crun uidmap fuse-overlayfs busybox-static
    { command -v sshd && command -v cloud-init; } >/dev/null || install_optional recipes openssh-server cloud-init
    { command -v promtool || [ -x "$build_dir/tools/promtool" ]; } >/dev/null || install_prometheus
fi

# --- the virtual environment ---------------------------------------------------------------------------

venv=$root/.venv
stamp=$venv/tfe-installed # names the contents of the environment; written last
begun=$venv/tfe-begun     # exists while an installation runs, or after it was interrupted
wanted=$( (cat "$root/scripts/requirements.txt" && /usr/bin/python3 -V && uname -m) | sha256sum | cut -d' ' -f1)

# Adds the package for training scripts like an editable install, without a build.
link_package() { printf '%s\n' "$root/agent/python" >"$("$venv_python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tfe.pth"; }

# Adds other frameworks to TensorFlow; none of their packages changes an installed version. A failure does not fail the
# setup. Each list is tried once per virtual environment.
install_frameworks() { # name of the list, frameworks in it
    local list=$root/scripts/requirements-$1.txt tried=$venv/tfe-tried-$1 wanted
    [ -e "$list" ] || return 0
    wanted=$(sha256sum <"$list" | cut -d' ' -f1)
    [ "$(cat "$tried" 2>/dev/null)" != "$wanted" ] || return 0
    printf '%s\n' "$wanted" >"$tried"
    logged "installing $2 into .venv" "setup-$1.log" "$venv_python" -m pip install --no-deps --require-hashes \
        --only-binary=:all: -r "$list" || say "no $2: the tests that need it are skipped"
}
install_optional_frameworks() {
    [ "$1" = --full ] || return 0
    install_frameworks frameworks JAX
    [ -z "${TFE_TEST_FULL:-}" ] || install_frameworks torch PyTorch
}

if [ -x "$venv_python" ] && [ ! -e "$begun" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    link_package
    install_optional_frameworks "${1:-}"
    exit 0
fi
if [ -e "$begun" ] || ! "$venv_python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
fi
install_venv() {
    mkdir -p "$venv" && touch "$begun" && rm -f "$stamp" || return 1
    [ -x "$venv_python" ] || /usr/bin/python3 -m venv "$venv" || return 1
    # The list is complete and has the hash of each wheel (pin-requirements.py).
    "$venv_python" -m pip install --no-deps --require-hashes --only-binary=:all: -r "$root/scripts/requirements.txt" || return 1
    TF_USE_LEGACY_KERAS=1 TF_CPP_MIN_LOG_LEVEL=2 "$venv_python" -c '
import pytest, sklearn, tensorflow, tf_keras' || return 1
}
export -f install_venv
export venv begun stamp venv_python root
logged "installing TensorFlow into .venv" setup-venv.log bash -c install_venv
link_package
rm -f "$begun"
printf '%s\n' "$wanted" >"$stamp"
install_optional_frameworks "${1:-}"
