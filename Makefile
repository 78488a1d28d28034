# SPDX-License-Identifier: Apache-2.0
# The everyday commands. CMakePresets.json holds the builds, tools/ the scripts.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help deps run build test test-all test-e2e format lint coverage clean

QUESTION ?= What is the capital of China?

help:
	@echo "make run       install what is missing, build, ask the shipped checkpoint a question"
	@echo "make test      install what is missing, build, run every fast test"
	@echo "make test-all  run what make test leaves out because it takes minutes"
	@echo "make test-e2e  run the server with real clients and a browser"
	@echo "make build     build ./build/release/inkstone"
	@echo "make format    lay out every source with clang-format"
	@echo "make lint      run clang-tidy"
	@echo "make coverage  measure the lines that the fast tests reach"

deps:
	@tools/install_deps.sh

build: deps
	@tools/build.sh release all

run: deps
	@tools/build.sh release inkstone
	./build/release/inkstone chat "$(QUESTION)"

# The sanitizer build runs the fast tests, the optimised one the fast and golden tests and the checks of the sources.
# CUDA is compiled where nvcc is found, and run only where a GPU is.
test: deps
	@tools/build.sh dev tests_fast
	@tools/build.sh release all
	@tools/build_cuda_kernels.sh
	@tools/run_tests.sh dev fast
	@tools/run_tests.sh release fast golden

test-all: deps
	@tools/build.sh tsan tests_tsan
	@tools/build.sh release all
	@tools/run_tests.sh tsan tsan
	@tools/run_tests.sh release slow

test-e2e:
	@if [ ! -d tests/e2e ]; then echo "test-e2e: there is no tests/e2e yet, nothing was run"; exit 0; fi; \
	tools/install_deps.sh --e2e; \
	tools/build.sh release inkstone; \
	tests/e2e/run.sh

format:
	@tools/check_format.sh --fix

lint: deps
	@cmake --preset release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
	@tools/lint.sh

coverage: deps
	@tools/build.sh coverage tests_fast
	@tools/run_tests.sh coverage fast
	@tools/coverage.py build/coverage

clean:
	rm -rf build
