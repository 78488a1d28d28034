# SPDX-License-Identifier: Apache-2.0
# Language level, warnings, sanitizers and the compiler cache, for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

option(INKSTONE_CHECK_SOURCES "Register the checks of the sources as tests" OFF)
option(INKSTONE_COVERAGE "Count the lines that tests reach" OFF)
set(INKSTONE_SANITIZE "" CACHE STRING "Sanitizers to compile with: empty, address,undefined or thread")

# Fused multiply-add would change the bits of a sum with the instruction set: contraction is off everywhere.
# (Device code has its own rules: cmake/InkstoneCuda.cmake.)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror;-ffp-contract=off>")
# GCC 12 reports writes beyond the end that are not there, once it has inlined fmt (at -O3) or std::string::operator+;
# both are fixed in 13.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow;-Wno-restrict>")
endif()
if(INKSTONE_SANITIZE)
  add_compile_options(-fsanitize=${INKSTONE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${INKSTONE_SANITIZE})
endif()

if(INKSTONE_COVERAGE)
  add_compile_options(--coverage)
  add_link_options(--coverage)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Paths relative to the source root, so that every checkout of the project shares the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
endif()
