#!/usr/bin/env python3
"""Usage: check-elf.py hardened PROGRAM… | same SOURCE

hardened: checks in the programs themselves that they were compiled and linked as scripts/cmake/Hardening.cmake says:
position independent, relocations bound at the start and read-only, no executable stack, checked calls of the C library,
guarded stacks, variables and registers zeroed, in every unit of this project; protected jumps where the program claims
them. same: builds the programs of SOURCE in two folders and compares their bytes."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAMS = ("server/tfe-rdzv", "server/ctl/tfe-ctl", "agent/tfe-agent")
# As in DW_AT_producer; some compilers lack the last two.
COMPILED = ("-fstack-protector-strong", "-fstack-clash-protection")
COMPILED_WHERE_KNOWN = ("-ftrivial-auto-var-init=zero", "-fzero-call-used-regs=used-gpr")
# Only tfe_no_secrets() removes one of these flags, and only for these files.
NO_SECRETS = re.compile(  # path as named by the build folder or a compiler cache
    r"(\.|\.\.(/\.\.)*)/(server/(core|scheduler)/|common/base/|common/text/(escape|quantity|text|utf8)\.|common/message/(cluster_table|job_spec|msg|principal)\.)"
)


def readelf(program, *what):
    return subprocess.run(["readelf", "--wide", *what, program], check=True, capture_output=True, text=True).stdout


def units(program):
    """Yields the file and the compiler flags of each C unit."""
    info = readelf(program, "--debug-dump=info", "--dwarf-depth=1")
    value = r"\s*:\s*(?:\(.*?\) )?(?:\(.*?\): )?(.*)"
    found = re.findall(rf"DW_AT_producer{value}\n.*DW_AT_language.*\n.*DW_AT_name{value}", info)
    # With a base directory above this folder, ccache names files relative to the build folder.
    return [(re.sub(r"^(\.\./)+", "./", name), flags) for flags, name in found if re.match(r"GNU C\d|.*clang", flags)]


def faults(program):
    head, dynamic, segments, symbols = readelf(program, "-h"), readelf(program, "-d"), readelf(program, "-l"), readelf(program, "-s")
    if not re.search(r"Type:\s+DYN", head):
        yield "is not position independent"
    if "BIND_NOW" not in dynamic and not re.search(r"FLAGS_1.*NOW", dynamic):
        yield "binds calls when they happen (-z now)"
    if "GNU_RELRO" not in segments:
        yield "has relocations that can be written (-z relro)"
    if not re.search(r"GNU_STACK.* RW ", segments):
        yield "has an executable stack"
    if "RPATH" in dynamic or "RUNPATH" in dynamic:
        yield "looks for libraries in a folder of its own"
    if "__stack_chk_fail" not in symbols:
        yield "has no guarded stack"
    if not re.search(r"__\w+_chk@", symbols):
        yield "calls nothing of the C library checked (_FORTIFY_SOURCE)"
    compiled = units(program)
    if not compiled:
        yield "does not say how it was compiled (no debug information)"
    known = subprocess.run(["cc", "-Q", "--help=common"], capture_output=True, text=True).stdout
    wanted = COMPILED + tuple(flag for flag in COMPILED_WHERE_KNOWN if flag.partition("=")[0] in known)
    for flag in wanted:
        taken_back = f"{flag.partition('=')[0]}=skip"
        without = [name for name, flags in compiled
                   if flag not in flags or (taken_back in flags and not NO_SECRETS.match(name))]
        if without:
            yield f"has {len(without)} of {len(compiled)} units without {flag}, as {without[0]}"
    notes = readelf(program, "-n")
    if any("-fcf-protection" in flags and "-fcf-protection=none" not in flags for _, flags in compiled) and not re.search("IBT.*SHSTK", notes):
        yield "claims CET, but not all of its objects have it, so no kernel turns it on"
    if "AArch64" in head and not ("BTI" in notes and "PAC" in notes):
        yield "has jumps that are not protected (-mbranch-protection)"


def build(source, folder):
    folder.mkdir()
    os.symlink(source, folder / "source")  # a different path, too
    here = folder / "source"
    subprocess.run(["cmake", "-G", "Ninja", "-S", str(here), "-B", str(folder / "build"), "-DTFE_TESTS=OFF"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder / "build"), "--parallel", "2", "--target", *(p.rpartition("/")[2] for p in PROGRAMS)],
                   check=True, stdout=subprocess.DEVNULL)
    return [folder / "build" / program for program in PROGRAMS]


def differing(source):
    with tempfile.TemporaryDirectory(prefix="tfe-same-") as top:
        both = [build(source, pathlib.Path(top) / name) for name in ("one", "another-of-a-longer-name")]
        for one, other in zip(*both):
            if one.read_bytes() != other.read_bytes():
                yield f"{one.name}: differs from folder to folder"


def main():
    what, *arguments = sys.argv[1:] or [""]
    if what == "hardened" and arguments:
        found = [f"{program}: {fault}" for program in arguments for fault in faults(program)]
    elif what == "same" and len(arguments) == 1:
        found = list(differing(pathlib.Path(arguments[0]).resolve()))
    else:
        sys.exit(__doc__)
    for line in found:
        print(line, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
