#!/usr/bin/env bash
# Usage: package.sh static [ARCH] | wheel [ARCH] | source | deb | image | sbom | version NUMBER
# Makes what users install, in build/package/NAME/:
#   static   the four programs for any Linux with glibc 2.31 (Debian 11, Ubuntu 20.04, RHEL 9), third-party libraries
#            linked in; ARCH is x86_64 or aarch64, by default this machine's
#   wheel    a wheel for pip with the static programs, the manual pages and the Python package
#   source   the source as a tarball, which is also the sdist; the same commit gives the same bytes
#   deb      Debian packages: tfe-rdzv, tfe-agent, python3-tf-elastic
#   image    container images tfe-server and tfe-agent (Containerfile) with podman
#   sbom     the components of the static programs, as CycloneDX JSON
#   version  sets the version of the project in all places (no output)
# Packages contain the checked-out commit; only static and wheel include uncommitted changes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

out=$build_dir/package
cache=$out/cache
arch=$(uname -m)
version=$(sed -n 's/^project(tfe VERSION \([0-9.]*\) .*/\1/p' "$root/CMakeLists.txt")
glibc=2.31
tools=(ziglang==0.17.1 auditwheel==6.8.2)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}

# The -dev packages with the static archives that the programs contain.
libraries=(libevent-dev libsodium-dev libprotobuf-c-dev libjansson-dev libpcre2-dev libyaml-dev libzstd-dev libsqlite3-dev
    libseccomp-dev libncurses-dev libssl-dev libbsd-dev)

# --- static ---------------------------------------------------------------------------------------

# Installs zig, a C compiler that links for any glibc version.
get_compiler() {
    local folder=$cache/tools-$arch compiler
    if [ "$(cat "$cache/zig/done" 2>/dev/null)" != "${tools[*]}" ]; then
        rm -rf "$cache/zig"
        /usr/bin/python3 -m venv "$cache/zig"
        "$cache/zig/bin/python" -m pip install --quiet --disable-pip-version-check "${tools[@]}"
        echo "${tools[*]}" >"$cache/zig/done"
    fi
    compiler=$(echo "$cache"/zig/lib/python3*/site-packages/ziglang/zig)
    mkdir -p "$folder"
    printf '#!/bin/sh\nexec %s cc -target %s-linux-gnu.%s "$@"\n' "$compiler" "$arch" "$glibc" >"$folder/cc"
    printf '#!/bin/sh\nexec %s ar "$@"\n' "$compiler" >"$folder/ar"
    printf '#!/bin/sh\nexec %s ranlib "$@"\n' "$compiler" >"$folder/ranlib"
    chmod +x "$folder"/cc "$folder"/ar "$folder"/ranlib
    "$folder/cc" -O2 -c "$root/scripts/package/compat.c" -o "$folder/compat.o"
}

# Unpacks Debian 12's libraries with an apt configuration separate from the system's; nothing is installed.
get_libraries() {
    local sysroot=$cache/sysroot-$arch apt=$cache/apt-$arch debian=amd64
    [ "$arch" = x86_64 ] || debian=arm64
    [ ! -e "$sysroot/done" ] || return 0
    rm -rf "$sysroot" "$apt"
    mkdir -p "$sysroot" "$apt"/{lists/partial,archives/partial,debs}
    cat >"$apt/sources.list" <<EOF
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian-security bookworm-security main
EOF
    local options=(-q -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$apt/lists"
        -o "Dir::Cache=$apt" -o Dir::State::status=/dev/null -o "APT::Architecture=$debian" -o "APT::Architectures=$debian"
        -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    (cd "$apt/debs" && apt-get "${options[@]}" download "${libraries[@]}")
    local deb
    for deb in "$apt"/debs/*.deb; do
        dpkg-deb -x "$deb" "$sysroot"
    done
    find "$sysroot" -name '*.so' -delete # the linker would prefer shared libraries
    touch "$sysroot/done"
}

make_static() {
    mkdir -p "$cache"
    get_compiler
    get_libraries
    local build=$out/build-$arch
    export TFE_ARCH=$arch TFE_TOOLS=$cache/tools-$arch TFE_SYSROOT=$cache/sysroot-$arch ZIG_GLOBAL_CACHE_DIR=$cache/zig-cache
    cmake -S "$root" -B "$build" -G Ninja --toolchain "$root/scripts/package/static.cmake" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DTFE_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr
    cmake --build "$build" --target tfe-rdzv tfe-agent tfe-ctl tfe-web
    rm -rf "$out/static/$arch"
    DESTDIR= cmake --install "$build" --prefix "$out/static/$arch"
}

# --- wheel, source, sbom, version -----------------------------------------------------------------

make_wheel() {
    make_static
    rm -rf "$out/wheel"
    /usr/bin/python3 "$root/scripts/package/wheel.py" "$out/static/$arch" "$out/wheel" "manylinux_${glibc/./_}_$arch"
}

# The tarball has the commit's files with the commit's time; PKG-INFO makes it an sdist as well.
make_source() {
    local name=tf_elastic-$version info
    info=$(cd "$root/scripts/package" && /usr/bin/python3 -c 'import wheel; print(wheel.metadata())')
    rm -rf "$out/source"
    mkdir -p "$out/source"
    git -C "$root" archive --format=tar --prefix="$name/" --add-virtual-file="$name/PKG-INFO:$info" HEAD |
        gzip -9n >"$out/source/$name.tar.gz"
    echo "$out/source/$name.tar.gz"
}

make_sbom() {
    get_libraries >/dev/null
    mkdir -p "$out/sbom"
    local deb
    for deb in "$cache/apt-$arch"/debs/*.deb; do
        dpkg-deb -W --showformat='${Package} ${source:Package} ${Version}\n' "$deb"
    done >"$out/sbom/versions"
    /usr/bin/python3 "$root/scripts/package/sbom.py" "$out/sbom/versions" >"$out/sbom/tf-elastic-$version.cdx.json"
    echo "$out/sbom/tf-elastic-$version.cdx.json"
}

# --- deb, image -----------------------------------------------------------------------------------

# Builds from a copy of the commit's files, because the build leaves files in debian/.
make_deb() {
    rm -rf "$out/deb"
    mkdir -p "$out/deb"
    git -C "$root" archive --format=tar --prefix="deb/tf-elastic-$version/" HEAD | tar -x -C "$out"
    (cd "$out/deb/tf-elastic-$version" && DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage -b -us -uc)
    rm -rf "$out/deb/tf-elastic-$version"
}

# $BASE replaces the base image of the Containerfile.
make_image() {
    local target context=$out/image/context
    make_static
    rm -rf "$out/image"
    mkdir -p "$context"
    cp -r "$out/static/$arch" "$context/static"
    for target in server agent; do
        podman build ${BASE:+--build-arg "BASE=$BASE"} --target "$target" --format docker --timestamp "$SOURCE_DATE_EPOCH" \
            -t "tfe-$target:$version" -t "tfe-$target" -f "$root/Containerfile" "$context"
        podman save -q -o "$out/image/tfe-$target-$version.tar" "tfe-$target:$version"
    done
    rm -rf "$context"
}

make_version() { # number
    [[ ${1:-} =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "version MAJOR.MINOR.PATCH"
    sed -i "s/^project(tfe VERSION [0-9.]* /project(tfe VERSION $1 /" "$root/CMakeLists.txt"
    sed -i "s/^version = \".*\"/version = \"$1\"/" "$root/agent/python/pyproject.toml"
    local text
    text=$(printf 'tf-elastic (%s) unstable; urgency=medium\n\n  * See NEWS.md.\n\n -- %s  %s\n\n' "$1" \
        "$(sed -n 's/^Maintainer: //p' "$root/debian/control")" "$(date -R)")
    printf '%s\n\n%s\n' "$text" "$(cat "$root/debian/changelog")" >"$root/debian/changelog"
}

case ${1:-} in
    static) arch=${2:-$arch} && make_static ;;
    wheel) arch=${2:-$arch} && make_wheel ;;
    source) make_source ;;
    deb) make_deb ;;
    image) make_image ;;
    sbom) make_sbom ;;
    version) make_version "${2:-}" ;;
    -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" ;;
    *) die "which package? (package.sh -h lists them)" ;;
esac
