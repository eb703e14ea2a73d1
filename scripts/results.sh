#!/usr/bin/env bash
# Measures docs/results again: scripts/results.sh [grid] [trees] [wan] [long] [loss] [copies] [udp] [channels] [fairness] [page], all of them without an argument.
# On a machine that does nothing else: Terahaul and its peers, their servers and the emulated paths share its processors.
# TERAHAUL names the program, OUT another folder. docs/results/README.md says what each set is.
set -euo pipefail
cd "$(dirname "$0")/.."
TERAHAUL=$(realpath -m -- "${TERAHAUL:-target/release/terahaul}")
export TERAHAUL
# What UDT and QUIC run under, where `make drivers` has built it.
export PATH=$PWD/perf/bin:$PATH
out=${OUT:-docs/results}

compare() { "$TERAHAUL" lab compare "$@"; }

# CESNET's grid: every peer that is on this machine, on both of its paths.
grid() {
    compare --path lan,cesnet-wan --work file:1GB --with all --runs 3 --cut-after 60 --out "$out/grid/file"
    compare --path lan,cesnet-wan --work tree:2000,tar:2000 --with all --runs 3 --cut-after 30 --out "$out/grid/tree"
}

# The whole Linux source beside what carries trees well.
trees() {
    compare --path lan,cesnet-wan --work tree --with rsync-ssh,rsyncd,tar-ssh,terahaul,terahaul-cp --runs 3 --out "$out/trees/near"
    compare --path filesender-100ms --work tree --with rsync-ssh,rsyncd,tar-ssh,terahaul --runs 1 --out "$out/trees/far"
}

# One large file where the line is faster than most programs.
wan() {
    compare --path cesnet-wan --work file:4GB --with scp,rsync-ssh,rsyncd,terahaul,iperf3 --runs 3 --out "$out/wan"
    # Getting it from a depot needs a third copy in memory; from a host it does not.
    compare --path cesnet-wan --work file:10GB --direction put --with scp,rsync-ssh,terahaul,iperf3 --runs 3 --out "$out/wan/ten"
    compare --path cesnet-wan --work file:10GB --direction get --with scp,rsync-ssh,terahaul-cp --runs 3 --out "$out/wan/ten-get"
}

# FileSender's path of 100 ms.
long() { compare --path filesender-100ms --work file:1GB --with scp,rsyncd,terahaul --runs 5 --out "$out/long"; }

# One packet in a hundred lost. CUBIC carries so little then that its file is a small one.
loss() {
    compare --path lossy --cc bbr --work file:1GB --direction put --with scp,terahaul,terahaul-udp --runs 2 --out "$out/loss/bbr"
    compare --path lossy --cc cubic --work file:50MB --direction put --with scp,terahaul,terahaul-udp --runs 3 --cut-after 240 --out "$out/loss/cubic"
}

# Copies between two hosts that have ssh: first ones, second ones, and changed files.
copies() {
    compare --path lan,cesnet-wan --work tree --with rsync-ssh,tar-ssh,terahaul-cp --runs 5 --out "$out/copies/first"
    compare --path lan,cesnet-wan --work tree:7900 --direction put --with scp,terahaul-cp --runs 1 --out "$out/copies/scp"
    # Over 100 ms compression decides: beside it the same copy without, and peers with theirs.
    compare --path filesender-100ms --work tree --direction put --with rsyncd,tar-ssh,rsync-ssh-z,tar-ssh-zstd,terahaul-cp,terahaul-cp-plain --runs 2 --out "$out/copies/far"
    compare --path lan,filesender-100ms --work again,update --direction put --with rsync-ssh,terahaul-cp --runs 5 --out "$out/copies/again"
    compare --path lan --work edited:2GB,inserted:2GB --direction put --with rsync-ssh,terahaul-cp --runs 5 --out "$out/copies/changed"
    compare --path lan --work small:1000000 --direction put --with rsync-ssh,terahaul-cp --runs 2 --out "$out/copies/small"
    compare --path lan --work batch:16x300MB --direction put --with mydata,terahaul-cp --runs 3 --out "$out/copies/batch"
}

# Blocks over UDP: on the paths that TCP is compared on, and on those that are hard for it.
udp() {
    compare --path filesender-100ms,lossy,very-lossy,bursty,transatlantic --work file:1GB --direction put --with terahaul,terahaul-udp --runs 5 --out "$out/udp/long"
    # Near, beside our TCP and QUIC: with jumbo frames and without, where the processors limit, and on a line that they keep up with.
    compare --path lan,lan+mtu=1500,lan+rate=2500mbit --work file:2GB --direction put --with terahaul,terahaul-udp,quic --runs 5 --out "$out/udp/lan"
    # Beside what else runs over UDP, and TCP with one and eight connections, under both congestion controls.
    local cc
    for cc in cubic bbr; do
        compare --path filesender-100ms,transatlantic,lossy --cc "$cc" --work file:500MB --direction put --with udt,quic,iperf3,iperf3-8,terahaul-udp --runs 3 --cut-after 60 --out "$out/udp/peers/$cc"
    done
    compare --path policed,bloated,asymmetric --work file:500MB --direction put --with terahaul-udp --runs 5 --out "$out/udp/paths"
    compare --path filesender-100ms --work file:10GB --direction put --with terahaul-udp --runs 2 --out "$out/udp/ten"
    compare --path satellite --work file:100MB --direction put --with terahaul-udp --runs 5 --out "$out/udp/satellite"
    # What a transfer chooses by itself, beside both of what it may choose, where TCP is CUBIC and where the path is short.
    compare --path lan,filesender-100ms,lossy --cc cubic --work file:500MB --with terahaul,terahaul-udp,terahaul-auto --runs 3 --cut-after 60 --out "$out/udp/auto"
    # Two paths of 500 Mbit/s from two addresses, beside one of them.
    local half=filesender-100ms+rate=500mbit+rtt=20ms
    compare --path "$half,$half+paths=2" --work file:1GB --direction put --with terahaul-udp --runs 3 --out "$out/udp/two"
}

# MCDTP's table: the same gigabyte over 1, 2, 4, 8 and 16 UDP channels.
channels() { node perf/channels.mjs --out "$out/udp"; }

# A line that is shared with TCP and with other transfers.
fairness() { node perf/fairness.mjs --out "$out/udp"; }

# The page in Chromium by round trip, beside a server that discards (cargo build --release -p terahaul-depot --example
# discard), and FileSender's table of chunk sizes.
page() {
    node perf/page_paths.mjs --out "$out" --cc bbr,cubic --only round-trips
    node perf/page_paths.mjs --out "$out" --only large,small-files,limits,chunks
}

sets=(grid trees wan long loss copies udp channels fairness page)
[ $# -gt 0 ] || set -- "${sets[@]}"
for set in "$@"; do
    case " ${sets[*]} " in
        *" $set "*) ;;
        *) echo "scripts/results.sh: there is no set '$set'; there are ${sets[*]}" >&2; exit 2 ;;
    esac
done
[ -x "$TERAHAUL" ] || { echo "$TERAHAUL is not there: run make build first" >&2; exit 2; }
mkdir -p "$out"
for set in "$@"; do
    echo "== $set"
    "$set"
done
