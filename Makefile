# Terahaul. `make` alone lists the targets. Each installs what it needs itself where it is missing (Debian, as root);
# what has to be there before is Rust, Node.js 20 and a C compiler.

CARGO  ?= cargo
DATA   ?= ./terahaul-data
LISTEN ?= 127.0.0.1:8750
# Seconds that `make fuzz` spends on each target, and which targets.
FUZZ_SECONDS ?= 20
FUZZ_TARGETS ?= $(basename $(notdir $(sort $(wildcard fuzz/fuzz_targets/*.rs))))

# What the lab compares, from Debian's packages.
LAB_TOOLS := curl ganesha.nfsd ganesha-vfs iperf3 lftp nfs-cp nginx rclone rsync scp smbclient smbd ssh sshd vsftpd zstd

# Where `make install` puts things, and a folder to put before all of it, for those who make packages.
PREFIX  ?= /usr/local
DESTDIR ?=
INSTALLED = bin/terahaul share/bash-completion/completions/terahaul share/zsh/site-functions/_terahaul \
            share/fish/vendor_completions.d/terahaul.fish share/man/man1/terahaul.1 share/man/man1/terahaul-*.1

# With all that they refer to each other for, but for what was measured.
DOCUMENTS = README.md CHANGELOG.md ARCHITECTURE.md LICENSE-APACHE LICENSE-MIT docs/*.md docs/*.png docs/results/*.md docs/results/*.svg \
            docs/results/udp/*.md docs/results/udp/peers/*/*.md web/README.md packaging/terahaul.service

RELEASE  := target/release/terahaul
DEV      := target/debug/terahaul
# Programs are where they are looked for, wherever else the user has them built.
override CARGO := CARGO_TARGET_DIR=target $(CARGO)
unexport CARGO_BUILD_TARGET
NODE_TEST = node --import tsx --test

.DEFAULT_GOAL := help
# What has to be there before stands before it in a list; cargo and node use all processors by themselves.
.NOTPARALLEL:
.PHONY: help serve build install install-files uninstall deb page binary dev-binary test test-rust test-page-units test-page-types test-browser test-api \
        soak drivers bench results fuzz lint lint-format lint-clippy lint-dependencies format clean tools tools-web tools-browser tools-headless

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: build ## build everything and run a depot on loopback (DATA=…, LISTEN=…)
	$(RELEASE) serve --data $(DATA) --listen $(LISTEN)

build: binary ## build the page and the program: target/release/terahaul

# Built anew only when its sources changed: a page that was written again makes cargo embed it again.
PAGE_SOURCES := $(shell find web/src web/build web/blake3 -type f -not -name '*.wasm') web/package-lock.json web/tsconfig.json

page: tools-web
	@[ -d web/dist/assets ] || rm -f target/page.stamp
	@$(MAKE) --no-print-directory --silent target/page.stamp

target/page.stamp: $(PAGE_SOURCES)
	@cd web && npm run --silent build
	@mkdir -p target && touch $@

# The program embeds the page, so the page comes first.
binary: page
	$(CARGO) build --release --locked -p terahaul

# Built as the tests build it: alone it would have other features of its dependencies, and all of them be built twice.
dev-binary: page
	@$(CARGO) test --locked --workspace --no-run --quiet

install: build install-files ## the program, its manual, documents and shell completions (PREFIX=/usr/local)

# The same of a program that is built. Whoever installs may have a umask under which others could not read what they are to use.
install-files: ## the same of what `make build` has built: needs no compiler, and so works with sudo
	@install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin $(sort $(dir $(filter share/%,$(INSTALLED)))))
	install -m 755 "$(RELEASE)" $(DESTDIR)$(PREFIX)/bin/terahaul
	umask 022 && "$(RELEASE)" completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/terahaul
	umask 022 && "$(RELEASE)" completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_terahaul
	umask 022 && "$(RELEASE)" completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/terahaul.fish
	umask 022 && "$(RELEASE)" man $(DESTDIR)$(PREFIX)/share/man/man1
	for document in $(DOCUMENTS); do install -D -m 644 $$document $(DESTDIR)$(PREFIX)/share/doc/terahaul/$$document || exit; done

uninstall: ## take away what `make install` put there; a depot's data stays
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,$(INSTALLED))
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/terahaul

deb: build ## a Debian package, with the depot as a service: target/terahaul_VERSION_ARCHITECTURE.deb
	@rm -f target/terahaul_*.deb
	@packaging/deb.sh $(RELEASE) target

# --- tests ---------------------------------------------------------------------------------------------------------

test: test-rust test-page-types test-page-units test-browser test-api ## every test, long trials in a short form

# The lab's peers are started as well; UDT's driver is compiled in seconds, QUIC's is not. Two tests for each processor:
# most of them wait for other processes.
test-rust: page perf/bin/terahaul-bench-udt
	@scripts/install-tools.sh curl unzip $(LAB_TOOLS)
	RUST_TEST_THREADS=$$((2 * $$(nproc))) PATH="$(CURDIR)/perf/bin:$$PATH" $(CARGO) test --locked --workspace --no-fail-fast

test-page-types: tools-web
	cd web && npm run --silent wasm && npm run --silent check

test-page-units: tools-web
	cd web && npm test --silent

# The development build is fast enough for a browser, and is here already after test-rust. Chromium without its windows is the same
# engine, and takes half to two thirds of the time; `make soak` goes through all of it in the whole browser.
test-browser: dev-binary tools-headless
	cd web && CHROMIUM="$${CHROMIUM:-/usr/bin/chromium-headless-shell}" TERAHAUL="$(CURDIR)/$(DEV)" $(NODE_TEST) --test-concurrency=2 tests/e2e/*.test.ts

test-api: dev-binary
	TERAHAUL="$(CURDIR)/$(DEV)" scripts/test-api.sh

soak: build tools-browser ## the long trials whole: crashes, hostile peers, a million files (hours)
	@scripts/install-tools.sh curl unzip
	$(CARGO) test --release --locked -p terahaul --test trials -- --ignored --skip one_seed --nocapture --test-threads 1
	$(CARGO) test --release --locked -p terahaul --test cp -- --ignored --nocapture --test-threads 1
	$(CARGO) test --release --locked -p terahaul --test cli udp -- --ignored --nocapture --test-threads 1
	$(CARGO) test --release --locked -p terahaul-depot --test depot million -- --ignored --nocapture --test-threads 1
	cd web && TRIALS=20 MANY=100000 $(NODE_TEST) --test-concurrency=1 tests/e2e/*.test.ts

drivers: perf/bin/terahaul-bench-udt perf/bin/terahaul-bench-quinn ## build what UDT and QUIC, libraries both, are compared under

perf/bin/terahaul-bench-udt: perf/udt/main.cpp
	@scripts/install-tools.sh g++ libudt
	@mkdir -p perf/bin
	$(CXX) -std=c++17 -O2 -Wall -Wextra -Werror -o $@ $< -ludt -lpthread

perf/bin/terahaul-bench-quinn: perf/quinn/src/main.rs perf/quinn/Cargo.toml perf/quinn/Cargo.lock
	cd perf/quinn && $(CARGO) build --release --locked
	@mkdir -p perf/bin
	cp perf/quinn/target/release/terahaul-bench-quinn $@

bench: build drivers tools-browser ## speed and memory beside scp, rsync, tar, nginx and QUIC (a quarter of an hour, quiet machine)
	@scripts/install-tools.sh curl rsync ssh scp sshd nginx linux-source
	$(CARGO) build --release --locked -p terahaul-net --example limits -p terahaul-depot --example discard
	node perf/bench.mjs

results: build drivers tools-browser ## measure docs/results again on emulated paths (some four hours, quiet machine; SETS="long page")
	@scripts/install-tools.sh $(LAB_TOOLS) linux-source
	$(CARGO) build --release --locked -p terahaul-depot --example discard
	scripts/results.sh $(SETS)

fuzz: ## run every fuzz target for FUZZ_SECONDS (20)
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# --- care ----------------------------------------------------------------------------------------------------------

lint: lint-format lint-clippy lint-dependencies test-page-types ## formatting, clippy, the page's types, dependencies

lint-format:
	$(CARGO) fmt --all --check

lint-clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

lint-dependencies:
	scripts/check-dependencies.sh

format: ## format the Rust code
	$(CARGO) fmt --all

clean: ## remove everything that was built; data folders stay
	$(CARGO) clean
	rm -rf perf/bin perf/quinn/target web/dist web/node_modules web/test-results web/blake3/blake3.wasm fuzz/target fuzz/corpus fuzz/artifacts

tools: tools-headless ## install all that the tests use
	@scripts/install-tools.sh curl unzip g++ libudt $(LAB_TOOLS)
	@scripts/install-python.sh schemathesis

tools-web:
	@scripts/install-web.sh

tools-browser: tools-web
	@[ -n "$$CHROMIUM" ] || scripts/install-tools.sh chromium

tools-headless: tools-web
	@[ -n "$$CHROMIUM" ] || scripts/install-tools.sh chromium-headless-shell
