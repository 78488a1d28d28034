# SPDX-License-Identifier: Apache-2.0
# One folder of src/ is one library inkstone_<name>; its tests are one executable <name>_test.

# inkstone_library(NAME SOURCES a.cc ... [DEPS target ...])
function(inkstone_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(inkstone_${name} STATIC ${ARG_SOURCES})
    target_include_directories(inkstone_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(inkstone_${name} PUBLIC ${ARG_DEPS})
  else()
    add_library(inkstone_${name} INTERFACE)
    target_include_directories(inkstone_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(inkstone_${name} INTERFACE ${ARG_DEPS})
  endif()
endfunction()

# One target per test label, so that a build can be asked for just what it will run: tests_fast, tests_tsan, ...
foreach(label fast golden slow tsan)
  add_custom_target(tests_${label})
endforeach()

# inkstone_executable(NAME SOURCES a.cc ... [DEPS target ...])
# A program that people run: it lies in the root of the build folder (build/release/inkstone).
function(inkstone_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()

# inkstone_test(NAME SOURCES a_test.cc ... [DEPS target ...] [LABELS fast|golden|slow|tsan ...] [TIMEOUT seconds])
# Labels: "fast" (default) runs in every build, sanitizers included; "golden" runs in optimised builds of `make test`;
# "slow" runs in `make test-all` only; "tsan", beside one of the others, adds a run under ThreadSanitizer there.
function(inkstone_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE INKSTONE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  foreach(label ${ARG_LABELS})
    add_dependencies(tests_${label} ${name})
  endforeach()
endfunction()
