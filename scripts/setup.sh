#!/usr/bin/env bash
# Usage: setup.sh
# Installs what building, testing and the demo need: system packages (as root, with apt) and a virtual
# environment in .venv. Asks for nothing when nothing is missing. test.sh and demo.sh call it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# --- system packages: judged by what they bring, so that other sources of the same thing count too ------

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
    need libcmocka-dev pkg-config --exists 'cmocka >= 1.1.5'
    need libbsd-dev have_header bsd/sys/tree.h
    need groff-base command -v groff # the tests read the man pages
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
    # An install that was cut off leaves dpkg half-configured; this does nothing otherwise.
    logged "installing ${missing[*]}" setup-apt.log sh -c '
        dpkg --configure -a && apt-get update &&
        apt-get install -y --no-install-recommends "$@"' sh "${missing[@]}"
    find_missing
    [ ${#missing[@]} = 0 ] ||
        die "still missing or too old after installing: ${missing[*]} (Debian 12 or Ubuntu 24.04 and later have them)"
fi

# --- the virtual environment ---------------------------------------------------------------------------

venv=$root/.venv
stamp=$venv/tfe-installed # what is in there; written last
begun=$venv/tfe-begun     # an install is on its way, or was cut off
wanted=$( (cat "$root/scripts/requirements.txt" && /usr/bin/python3 -V && uname -m) | sha256sum | cut -d' ' -f1)

# The package for training scripts, as an editable install would do it, without a build.
link_package() { printf '%s\n' "$root/agent/python" >"$("$venv_python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tfe.pth"; }

if [ -x "$venv_python" ] && [ ! -e "$begun" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    link_package
    exit 0
fi
if [ -e "$begun" ] || ! "$venv_python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
fi
install_venv() {
    mkdir -p "$venv" && touch "$begun" && rm -f "$stamp" || return 1
    [ -x "$venv_python" ] || /usr/bin/python3 -m venv "$venv" || return 1
    local list=$build_dir/requirements.txt minor
    cp "$root/scripts/requirements.txt" "$list"
    "$venv_python" -m pip install -r "$list" || {
        # There is not a tensorflow-cpu for every machine (arm64); the whole package has no GPU part there.
        [ "$(uname -m)" != x86_64 ] || return 1
        sed -i 's/^tensorflow-cpu/tensorflow/' "$list"
        "$venv_python" -m pip install -r "$list" || return 1
    }
    minor=$("$venv_python" -c '
from importlib.metadata import distributions
print(next(".".join(d.version.split(".")[:2]) for d in distributions()
           if d.metadata["Name"].replace("_", "-") in ("tensorflow-cpu", "tensorflow")))') || return 1
    "$venv_python" -m pip install --no-deps "tf-keras==$minor.*" || return 1
    TF_USE_LEGACY_KERAS=1 TF_CPP_MIN_LOG_LEVEL=2 "$venv_python" -c '
import pytest, sklearn, tensorflow, tf_keras' || return 1
}
export -f install_venv
export venv begun stamp venv_python root build_dir
logged "installing TensorFlow into .venv" setup-venv.log bash -c install_venv
link_package
rm -f "$begun"
printf '%s\n' "$wanted" >"$stamp"
