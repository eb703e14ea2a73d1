#!/usr/bin/env bash
# Installs what the named tools need on Debian, only where it is missing: scripts/install-tools.sh chromium rsync …
# Asks nothing and says nothing when all is there.
set -euo pipefail

package_of() {
    case "$1" in
        sshd) echo openssh-server ;;
        scp | ssh) echo openssh-client ;;
        clang++) echo clang ;;
        g++) echo g++ ;;
        b3sum | chromium | chromium-headless-shell | curl | iperf3 | jq | lftp | nginx | rclone | rsync | smbclient | unzip | vsftpd | zstd) echo "$1" ;;
        smbd) echo samba ;;
        libudt) echo libudt-dev ;;
        ganesha.nfsd) echo nfs-ganesha ;;
        ganesha-vfs) echo nfs-ganesha-vfs ;;
        nfs-cp) echo libnfs-utils ;;
        python3-venv) echo python3-venv ;;
        linux-source) echo linux-source ;;
        *) echo "scripts/install-tools.sh does not know the tool '$1'" >&2; exit 2 ;;
    esac
}

is_here() {
    case "$1" in
        linux-source) compgen -G '/usr/src/linux-source-*.tar.*' >/dev/null ;;
        # The module is there without pip on Debian; what makes a venv work is ensurepip.
        python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
        libudt) [ -e /usr/include/udt/udt.h ] ;;
        # The part of ganesha that serves a local folder.
        ganesha-vfs) compgen -G '/usr/lib/*/ganesha/libfsalvfs.so' >/dev/null ;;
        nginx | smbd | sshd | vsftpd) command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

packages=()
for tool in "$@"; do
    is_here "$tool" || packages+=("$(package_of "$tool")")
done
[ ${#packages[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "Missing: ${packages[*]}. This system has no apt-get: install them with its own package manager, then run make again." >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "Missing: ${packages[*]}. Install them as root, for instance: sudo apt-get install -y ${packages[*]}" >&2
    exit 1
fi
echo "installing ${packages[*]}"
# What is read of its log is English.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
# Debian starts a server when it is installed. These are for tests and comparisons, which start their own.
policy=/usr/sbin/policy-rc.d
mark='# Here while scripts/install-tools.sh of Terahaul installs'
# One at a time: who is ready first would take the policy from under what the other installs.
exec 9<"${policy%/*}"
flock 9
# Nor are they to start with the machine, and what they bring along is not either. What somebody else installs meanwhile is.
enabled() { systemctl --root=/ list-unit-files --state=enabled --no-legend --plain | cut -d' ' -f1 | sort; }
log=$(mktemp)
ours() {
    local set_up
    mapfile -t set_up < <(sed -n 's/^Setting up \([^ ]*\) .*/\1/p' "$log")
    [ ${#set_up[@]} -eq 0 ] || dpkg -L "${set_up[@]}" | sed -n 's|.*/systemd/system/\([^/]*\)$|\1|p' | sort -u
}
if command -v systemctl >/dev/null; then before=$(enabled); fi
leave() {
    if [ -e "$policy" ] && grep -qxF "$mark" "$policy"; then rm -f "$policy"; fi
    if [ -n "${before+known}" ]; then
        local new
        mapfile -t new < <(comm -13 <(echo "$before") <(enabled) | comm -12 - <(ours))
        [ ${#new[@]} -eq 0 ] || systemctl --root=/ disable --quiet "${new[@]}"
    fi
    rm -f "$log"
}
trap leave EXIT
# One with the mark was left by an installer that was killed.
if [ ! -e "$policy" ] || grep -qxF "$mark" "$policy"; then
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
    chmod 755 "$policy"
fi
# The system itself may be installing just now, and apt-get waits by itself for one of its locks only.
apt() {
    local until=$((SECONDS + 300)) from
    while from=$(($(wc -c <"$log") + 1)); ! apt-get "$@" </dev/null >>"$log" 2>&1; do
        tail -c "+$from" "$log" | grep '^E: Could not get lock' >/dev/null && [ "$SECONDS" -lt "$until" ] || return 1
        sleep 2
    done
}
install() { apt install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${packages[@]}"; }
# A fresh system has no package lists yet, and an old one has stale ones.
if ! install && ! { apt update && install; }; then
    tail -20 "$log" >&2
    echo "apt-get could not install ${packages[*]}: see above, check the network, then run make again." >&2
    exit 1
fi
