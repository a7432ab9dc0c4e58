# The layer table: which target may link what. A target that links anything else stops the configure
# step; a source file that includes a header of a module that it may not link stops the build.

# --- compiler flags -----------------------------------------------------------------------------
# Reasons: -Wconversion/-Wsign-conversion for lengths from peers; -Wshadow and -Wcast-qual for reviews; -Wvla to bound
# stack use; -Wformat=2 for logs. The caller determines a callback's parameters, so unused ones are not reported.
set(TFE_WARNINGS -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wvla
    -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual -Wformat=2 -Wimplicit-fallthrough
    -Wno-unused-parameter)
if(TFE_WERROR)
  list(APPEND TFE_WARNINGS -Werror)
endif()
include(Hardening)

# --- the table ----------------------------------------------------------------------------------
set(TFE_PRODUCT tfe_base tfe_version tfe_wire tfe_net tfe_records tfe_client tfe_job tfe_archive rdzv_core scheduler agent_core agent_modules server_store server_sandbox
    tfe-rdzv tfe-agent ctl_jobs tfe-ctl web_modules tfe-web)
set(TFE_TARGETS ${TFE_PRODUCT})
set(LAYER_tfe_base "")
set(LAYER_tfe_version "")
set(LAYER_tfe_wire tfe_base tfe_proto PkgConfig::sodium PkgConfig::protobuf_c)
set(LAYER_tfe_net tfe_wire PkgConfig::libevent)
set(LAYER_tfe_records tfe_net PkgConfig::jansson)
set(LAYER_tfe_client tfe_records)
set(LAYER_tfe_job tfe_net PkgConfig::jansson)
set(LAYER_tfe_archive tfe_net PkgConfig::zstd)
set(LAYER_rdzv_core tfe_base)
set(LAYER_scheduler tfe_base)
set(LAYER_agent_core tfe_base)
set(LAYER_server_store rdzv_core tfe_net tfe_records PkgConfig::sqlite3)
set(LAYER_server_sandbox tfe_net PkgConfig::seccomp)
set(LAYER_tfe-rdzv server_store scheduler server_sandbox tfe_job tfe_version)
set(LAYER_agent_modules agent_core tfe_archive tfe_job PkgConfig::jansson PkgConfig::pcre2)
set(LAYER_tfe-agent agent_modules tfe_version)
set(LAYER_ctl_jobs tfe_job PkgConfig::yaml)
set(LAYER_tfe-ctl ctl_jobs tfe_client tfe_archive tfe_version PkgConfig::ncursesw)
set(LAYER_web_modules tfe_client tfe_job server_sandbox PkgConfig::libevent_openssl PkgConfig::openssl)
set(LAYER_tfe-web web_modules tfe_version)
if(TFE_TESTS)
  list(APPEND TFE_TARGETS sim)
  set(LAYER_sim tfe_wire)
endif()

function(tfe_compile_options target)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${target} PRIVATE ${TFE_WARNINGS} ${TFE_CODEGEN} ${TFE_HARDENING})
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE TFE_VERSION="${PROJECT_VERSION}")
endfunction()

# tfe_library(NAME SOURCES a.c … [LINKS …])
function(tfe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINKS})
  tfe_compile_options(${name})
endfunction()

# tfe_program(NAME SOURCES a.c … [LINKS …]): installed into bin.
function(tfe_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  target_link_options(${name} PRIVATE ${TFE_LINK_FLAGS})
  tfe_compile_options(${name})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# tfe_no_secrets(TARGET): for a library that never handles a secret.
function(tfe_no_secrets name)
  target_compile_options(${name} PRIVATE ${TFE_NO_SECRETS})
endfunction()

# A core's switch over one of its enums lists every value, so that a new value has to be handled everywhere.
function(tfe_core_options name)
  target_compile_options(${name} PRIVATE -Wswitch-enum)
endfunction()

# The core targets may need only the libc functions allowed by check-purity.sh: links them with tfe_base and checks the
# undefined symbols.
function(tfe_check_purity name)
  if(TFE_SANITIZE)
    return()
  endif()
  add_custom_command(
    OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.pure
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/check-purity.sh ${CMAKE_C_COMPILER} ${CMAKE_NM}
            $<TARGET_FILE:${name}> $<TARGET_FILE:tfe_base> ${CMAKE_CURRENT_BINARY_DIR}/${name}.pure
    DEPENDS ${name} tfe_base ${CMAKE_SOURCE_DIR}/scripts/check-purity.sh
    COMMENT "Checking that ${name} is pure" VERBATIM)
  add_custom_target(${name}_purity ALL DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${name}.pure)
endfunction()

# --- the check ----------------------------------------------------------------------------------
function(tfe_check_layers)
  foreach(target IN LISTS TFE_TARGETS)
    if(NOT TARGET ${target})
      message(FATAL_ERROR "layers: target ${target} of the layer table does not exist")
    endif()
    get_target_property(links ${target} LINK_LIBRARIES)
    foreach(link IN LISTS links)
      if(link AND NOT link IN_LIST LAYER_${target})
        message(FATAL_ERROR "layers: ${target} may not link ${link} "
                            "(allowed: ${LAYER_${target}})")
      endif()
    endforeach()
  endforeach()
  add_custom_target(include_rule ALL
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/check-includes.sh ${CMAKE_SOURCE_DIR}
    COMMENT "Checking includes against the layer table" VERBATIM)
endfunction()
