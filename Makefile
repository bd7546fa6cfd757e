# Deckhand's house. `make demo` shows it working on a machine with nothing
# running; `make test` tests it; both install what they need first.

# PKG and ARGS narrow test, race and lint: make test PKG=./hub/... ARGS='-run Lease'
PKG ?= ./...
ARGS ?=

.PHONY: all setup build install uninstall ui packages release init generate lint test race soak demo up bench clean

all: build

setup: ## install what is missing
	scripts/setup

ui: ## build the console, which deckhand embeds
	scripts/build-ui

init: ## build deckhand-init and deckhand-skill, which deckhand-node embeds
	scripts/build-init

build: ## build bin/deckhand and bin/deckhand-node
	scripts/build bin

install: ## install what was built below PREFIX (/usr/local): programs, completion, manual pages, configuration, systemd units
	PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) scripts/install

uninstall: ## remove what install installed
	PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) scripts/install uninstall

packages: ## build the packages of deckhand and deckhand-node, .deb and .rpm, into bin
	scripts/package

release: ## build everything of a release into bin/release
	scripts/release

generate: ## make Go from the protos and the SQL
	scripts/generate

lint: ## check style and common mistakes
	scripts/lint $(if $(filter-out ./...,$(PKG)),$(PKG))

test: ## run the tests
	scripts/test $(ARGS) $(PKG)

race: ## run the tests with the race detector
	scripts/test -race $(ARGS) $(PKG)

soak: ## run what is concurrent again and again, with the race detector, and all faults at length
	scripts/test -race -short -timeout=60m $(ARGS) ./hub ./node/exec ./node/image ./node/initd ./node/jail
	scripts/test -race -count=20 -timeout=60m $(ARGS) $$(go list ./internal/... | grep -v '/arch$$') ./hub/storage/bus/... ./node/execlog/... ./node/ledger/... ./node/files/...
	DECKHAND_SOAK=1 scripts/test -v -count=1 -timeout=60m $(ARGS) ./integration/faults/...
	DECKHAND_SOAK=1 scripts/test -v -count=1 -timeout=30m -run 'FullSpeed|DoesNotEnd|StopsReading|ManyJails' $(ARGS) ./node/exec/...
	DECKHAND_SOAK=1 scripts/test -v -count=1 -timeout=60m $(ARGS) ./integration/pairs
	DECKHAND_SOAK=1 scripts/test -v -count=1 -timeout=30m -run 'TwoGigabytes' $(ARGS) ./integration/console
	DECKHAND_SOAK=1 scripts/test -v -count=1 -timeout=30m -run 'GeneratedClients|Inspector' $(ARGS) ./integration/sdk ./integration/mcp
	DECKHAND_SOAK=1 scripts/test -v -count=10 -timeout=30m -run 'ContainerdDies' $(ARGS) ./node/jail
	DECKHAND_SOAK=1 scripts/test -v -count=1 -timeout=30m -run 'ChromiumOfAPack' $(ARGS) ./node/jail
	DECKHAND_SOAK=1 scripts/test -v -count=5 -timeout=60m -run 'HubDies|PullGoesOn|KeepsASetup|ContainerdDied' $(ARGS) ./integration/image ./node/image
	DECKHAND_TEST_RUNTIME=runsc scripts/test -v -count=1 -timeout=30m $(ARGS) ./node/exec
	DECKHAND_TEST_RUNTIME=runsc scripts/test -v -count=1 -timeout=30m -run Image $(ARGS) ./node/jail
	command -v mmdebstrap >/dev/null || apt-get install -y --no-install-recommends mmdebstrap
	DECKHAND_SOAK=1 scripts/test -v -count=1 -timeout=30m -run 'PackageManagers' $(ARGS) ./integration/image
	DECKHAND_SOAK=1 scripts/test -v -count=1 -timeout=60m -run 'Reproducible|TestPackaging' $(ARGS) ./integration/docs
	scripts/generate --all && git diff --exit-code # the digests of generated code are of what is made

demo: ## show it working on this machine's own logs, and stop it again
	@scripts/demo

up: setup build ## run hub, worker and node on this machine until Ctrl-C
	bin/deckhand up

bench: ## measure; scripts/bench dispatch measures one thing
	scripts/bench $(ARGS)

clean: ## remove what was built
	rm -rf bin .build node/jail/initbin/*.zst ui/node_modules sdk/ts/node_modules sdk/ts/dist
	find ui/dist -mindepth 1 ! -name README -delete
