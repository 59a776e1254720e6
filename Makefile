# What to run while working on Squall. Each target is a few plain commands; none installs anything.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

FUZZTIME ?= 20s
SEEDS ?= 100000
ROUNDS ?= 100
TRIALS ?= 3

.DEFAULT_GOAL := help
.PHONY: help check test system race sim durable power damage model verbs fuzz bench

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  \1\t/' | expand -t 12

check: ## what a change has to pass: every test, vet, staticcheck, other platforms, mutants, invariants, races
	.ci/run

test: ## every test of the library and the command but those of make system, and a part of the seeds
	go test ./... ./cmd/squall/...

system: ## what has the build tag system: the long tests of groups of processes, and all seeds of the tests that draw them, and the tests with programs of other DDS
	TEST_SEED=new go test -tags system ./cmd/squall/internal/testlab $$(grep -rl --include='*_test.go' 'testutil\.\(Seeds\|Long\)\|^//go:build system' . | xargs dirname | sort -u)

race: ## the short tests under the race detector
	go test -race -short ./... ./cmd/squall/...

sim: ## the simulator over SEEDS seeds (100000); a failure names the commit if this is a working copy
	go run -tags mutants $(if $(wildcard .git),-buildvcs=true) ./cmd/squall sim --seeds $(SEEDS)

durable: ## ROUNDS times (100) for each engine, all members of a group of processes killed and started again; an audit of their disks after each
	go test -tags system ./cmd/squall/internal/testlab -run AllAreKilled -v -timeout 2h -args -rounds $(ROUNDS)

power: ## ROUNDS times (100) for each engine, the power of all members of a group goes; then TRIALS stores (3), with a power cut and a failure at every step. Needs root
	go test -tags system ./cmd/squall/internal/testlab -run ThePowerGoes -v -timeout 2h -args -rounds $(ROUNDS)
	go test -tags system ./cmd/squall/internal/testlab -run 'WhatAStoreSays|BeingMade' -v -timeout 2h -args -trials $(TRIALS)

damage: ## every field of every page of a store's files damaged, one at a time
	go test ./persist -run Sweep -v -timeout 2h -args -sweep

model: ## the model of a view change's decision, as it is and with each flaw; needs spin and gcc
	docs/model/check.sh

verbs: ## RDMA links over software RDMA in a QEMU guest, which is put together from Debian packages: the fabric's tests, groups of three processes, a benchmark. With KERNEL=linux-image-6.12-amd64, in a newer kernel
	fabric/verbs/guest/run.sh $(if $(KERNEL),-k $(KERNEL))

fuzz: ## every fuzz target for FUZZTIME (20s), one after the other
	@packages=$$(go list ./... ./cmd/squall/...); for package in $$packages; do \
		targets=$$(go test -run '^$$' -list '^Fuzz' "$$package"); \
		for target in $$(grep '^Fuzz' <<<"$$targets" || true); do \
			echo "== $$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package"; \
		done; \
	done

bench: ## every benchmark; pipe into a file and compare two of them with benchstat
	go test -run '^$$' -bench . ./... ./cmd/squall/...
