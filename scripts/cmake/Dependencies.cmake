# Libraries and tools from the system's packages. Each becomes an imported target with its name in the layer table.
find_package(PkgConfig REQUIRED)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium>=1.0.18)
pkg_check_modules(protobuf_c REQUIRED IMPORTED_TARGET libprotobuf-c>=1.4)
pkg_check_modules(libevent REQUIRED IMPORTED_TARGET libevent_core>=2.1.12 libevent_extra>=2.1.12)
pkg_check_modules(libevent_openssl REQUIRED IMPORTED_TARGET libevent_openssl>=2.1.12)
pkg_check_modules(openssl REQUIRED IMPORTED_TARGET openssl>=3.0)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3>=3.40)
pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET libseccomp>=2.5)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson>=2.14)
# Job files: only tfe-ctl reads YAML.
pkg_check_modules(yaml REQUIRED IMPORTED_TARGET yaml-0.1>=0.2.5)
# Bundles of a job's files: tfe-ctl packs, tfe-agent unpacks.
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd>=1.4)
# Patterns of jobs (--progress-regex), matched with a limit of steps and memory.
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.36)
pkg_check_modules(ncursesw REQUIRED IMPORTED_TARGET ncursesw>=6)

# Used for checks of the build and generated test vectors.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
# tfe-web's page draws curves with it; it is embedded in the program.
find_file(CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist REQUIRED NO_DEFAULT_PATH)
find_program(PROTOC_C NAMES protoc-c REQUIRED)
# sys/tree.h: intrusive red-black trees as macros. Header only; nothing is linked.
find_path(BSD_TREE_INCLUDE bsd/sys/tree.h REQUIRED)
if(TFE_TESTS)
  pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka>=1.1.5)
endif()
