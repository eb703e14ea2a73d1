#!/usr/bin/env bash
# Runs fuzz targets, each for some seconds: scripts/fuzz.sh SECONDS TARGET…
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=$1
shift
if ! command -v rustup >/dev/null || ! rustup toolchain list | grep -q '^nightly'; then
    echo "Fuzzing needs Rust's nightly toolchain: rustup toolchain install nightly --profile minimal" >&2
    exit 1
fi
if ! command -v cargo-fuzz >/dev/null; then
    echo "installing cargo-fuzz"
    cargo install --locked --quiet cargo-fuzz </dev/null || {
        echo "cargo-fuzz could not be installed: check the network, then run make fuzz again." >&2
        exit 1
    }
fi
scripts/install-tools.sh clang++

cargo +nightly fuzz build
# SQLite's one source file has two tables of one name, which the sanitizer takes for a clash of two libraries.
export ASAN_OPTIONS=detect_odr_violation=0
failed=()
for target in "$@"; do
    mkdir -p "fuzz/corpus/$target"
    # What the fuzzer finds goes to the first folder; the seeds are only read.
    log=$(mktemp)
    if cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 </dev/null >"$log" 2>&1; then
        echo "$target: $(awk '/number_of_executed_units/ { print $2 }' "$log") inputs, nothing found"
    else
        cat "$log"
        failed+=("$target")
    fi
    rm -f "$log"
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "found something: ${failed[*]} (inputs are under fuzz/artifacts/)" >&2
    exit 1
fi
