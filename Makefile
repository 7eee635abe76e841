# The ways in. CMake does the building; see HACKING.md.
BUILD := build/release
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
PREFIX ?= /usr/local
SOURCES = $(shell find include src tests bench examples -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh')

.PHONY: help setup packages build check analyze quickstart bench-env install format check-format

help:
	@echo 'make quickstart   set up, build, train a drafter for four minutes, compare schedules, generate'
	@echo 'make check        set up, build, run all tests'
	@echo 'make build        set up, build; the command is then $(BUILD)/bin/headrace'
	@echo 'make analyze      build analyze, predict and doctor alone: no libtorch, two minutes'
	@echo 'make setup        Debian packages and the .venv with libtorch and the target model'
	@echo 'make bench-env    the second environment, for Python competitors in benchmarks'
	@echo 'make install PREFIX=DIR   command, library, headers, CMake package'
	@echo 'make format       clang-format over all sources'

setup:
	@sh tools/setup

packages:
	@sh tools/packages tools/packages-debian.txt

build: setup
	cmake --preset release -DHEADRACE_TORCH=on $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS) --target product

check: setup
	cmake --preset release -DHEADRACE_TORCH=on $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS)
	ctest --preset release -j $(JOBS)

analyze: packages
	cmake --preset release $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS) --target headrace

quickstart: build
	@sh tools/quickstart

bench-env:
	@sh tools/bench-env

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

format:
	clang-format -i $(SOURCES)

check-format:
	clang-format --dry-run --Werror $(SOURCES)
