# Compiler and linker options of every target: mitigations of memory errors, and builds that are reproducible in every
# folder. scripts/check-elf.py checks the programs for them.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
set(TFE_HARDENING -fstack-protector-strong -fstack-clash-protection)
# Nothing here is a shared library, so that functions of the same unit may be inlined, as with -fPIE.
set(TFE_CODEGEN -fno-semantic-interposition)
set(TFE_LINK_FLAGS -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed)

# Keeps build paths out of the objects. The last matching prefix counts, and the build folder may be inside the source
# folder.
list(APPEND TFE_CODEGEN -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=build)

# Older compilers lack these: uninitialised variables are zero, and no register holds a secret after a function returns.
foreach(flag -ftrivial-auto-var-init=zero -fzero-call-used-regs=used-gpr)
  string(MAKE_C_IDENTIFIER "TFE_HAS${flag}" has)
  check_c_compiler_flag(${flag} ${has})
  if(${has})
    list(APPEND TFE_HARDENING ${flag})
  endif()
endforeach()
# The libraries on the path of a renewal hold no secret; zeroing registers would cost it 9 %.
if(TFE_HAS_fzero_call_used_regs_used_gpr)
  set(TFE_NO_SECRETS -fzero-call-used-regs=skip)
endif()

# A program is protected from jumps into its middle only if every object of it is, including the C library's start
# files: on x86 if the linker confirms it, and nowhere else (Debian 12's are not protected).
set(TFE_BRANCHES none)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64")
  set(CMAKE_REQUIRED_FLAGS "-fcf-protection -Wl,-z,cet-report=error")
  check_c_source_compiles("int main(void) { return 0; }" TFE_HAS_CET)
  unset(CMAKE_REQUIRED_FLAGS)
  if(TFE_HAS_CET)
    set(TFE_BRANCHES cet)
    list(APPEND TFE_HARDENING -fcf-protection)
    list(APPEND TFE_LINK_FLAGS -Wl,-z,cet-report=error)
  else()
    list(APPEND TFE_HARDENING -fcf-protection=none)
  endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(TFE_BRANCHES bti)
  list(APPEND TFE_HARDENING -mbranch-protection=standard)
endif()

if(TFE_SANITIZE)
  list(APPEND TFE_HARDENING -fsanitize=address,undefined -fno-sanitize-recover=all
       -fno-omit-frame-pointer)
  list(APPEND TFE_LINK_FLAGS -fsanitize=address,undefined)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  # Ubuntu's compiler predefines it; requires optimisation.
  list(APPEND TFE_HARDENING -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()

if(TFE_FUZZ)
  if(NOT TFE_SANITIZE OR NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TFE_FUZZ needs clang and TFE_SANITIZE: cmake --preset fuzz")
  endif()
  list(APPEND TFE_HARDENING -fsanitize=fuzzer-no-link)
endif()
