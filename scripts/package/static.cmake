# CMake toolchain of scripts/package.sh: zig's C compiler for an old glibc, and Debian's static libraries unpacked in a
# folder of their own. $TFE_TOOLS has the compiler, $TFE_SYSROOT the libraries, $TFE_ARCH is x86_64 or aarch64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{TFE_ARCH})
set(CMAKE_C_COMPILER $ENV{TFE_TOOLS}/cc)
set(CMAKE_AR $ENV{TFE_TOOLS}/ar)
set(CMAKE_RANLIB $ENV{TFE_TOOLS}/ranlib)
set(lib $ENV{TFE_SYSROOT}/usr/lib/$ENV{TFE_ARCH}-linux-gnu)
set(CMAKE_LIBRARY_PATH ${lib})
set(CMAKE_INCLUDE_PATH $ENV{TFE_SYSROOT}/usr/include)
set(ENV{PKG_CONFIG_SYSROOT_DIR} $ENV{TFE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${lib}/pkgconfig:$ENV{TFE_SYSROOT}/usr/share/pkgconfig)
set(CMAKE_C_FLAGS_INIT "-ffunction-sections -fdata-sections -isystem $ENV{TFE_SYSROOT}/usr/include/$ENV{TFE_ARCH}-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT "$ENV{TFE_TOOLS}/compat.o -s -Wl,--gc-sections -lpthread -ldl -lm")
