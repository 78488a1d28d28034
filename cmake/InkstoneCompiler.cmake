# SPDX-License-Identifier: Apache-2.0
# Language level, warnings, sanitizers and the compiler cache, for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

set(INKSTONE_SANITIZE "" CACHE STRING "Sanitizers to compile with: empty, address,undefined or thread")

# Fused multiply-add would change the bits of a sum with the instruction set: contraction is off everywhere.
add_compile_options(-Wall -Wextra -Werror -ffp-contract=off)
if(INKSTONE_SANITIZE)
  add_compile_options(-fsanitize=${INKSTONE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${INKSTONE_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Paths relative to the source root, so that every checkout of the project shares the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
endif()
