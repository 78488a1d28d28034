# SPDX-License-Identifier: Apache-2.0
# Whether this build has the CUDA backend, and how device code is compiled.
# src/backends/cuda is part of every build: without INKSTONE_HAS_CUDA it has only its host parts (tuning, plans) and their
# tests; with it, also the target inkstone_cuda_kernels, which `make test` builds by the preset cuda-portable.
# INKSTONE_CUDA=AUTO takes it where the backend and a CUDA compiler are present; the presets say ON or OFF.
set(INKSTONE_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO, ON or OFF")
set_property(CACHE INKSTONE_CUDA PROPERTY STRINGS AUTO ON OFF)

set(INKSTONE_HAS_CUDA OFF)
if(NOT INKSTONE_CUDA STREQUAL "OFF")
  # The toolkit's usual place is not always in PATH.
  find_program(INKSTONE_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(INKSTONE_NVCC AND EXISTS ${PROJECT_SOURCE_DIR}/src/backends/cuda/CMakeLists.txt)
    set(INKSTONE_HAS_CUDA ON)
  elseif(INKSTONE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "INKSTONE_CUDA=ON needs nvcc and src/backends/cuda")
  endif()
endif()

if(INKSTONE_HAS_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${INKSTONE_NVCC})
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90a-real)
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # CMake before 3.25.2 does not know that nvcc 12 and later compile C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  if(CCACHE_PROGRAM)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  # nvcc takes -Werror with a list of its own, so the host compiler's is passed on explicitly.
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Werror,-ffp-contract=off;-Werror=all-warnings>")
endif()

option(INKSTONE_PORTABLE "Link libstdc++ and libgcc statically and look for shared libraries in lib/ beside the binary" OFF)
if(INKSTONE_PORTABLE)
  add_link_options(-static-libstdc++ -static-libgcc)
  set(CMAKE_BUILD_RPATH "$ORIGIN/lib")
  set(CMAKE_INSTALL_RPATH "$ORIGIN/lib")
  # The old kind of run path: it holds for the libraries of libraries too.
  add_link_options(-Wl,--disable-new-dtags)
endif()
