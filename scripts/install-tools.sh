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
        b3sum | chromium | curl | iperf3 | jq | lftp | nginx | rclone | rsync | smbclient | unzip | vsftpd | zstd) echo "$1" ;;
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
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# Debian starts a server when it is installed. These are for tests and comparisons, which start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
# Others may be installing just now: the system itself, or another part of the tests.
install() { apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${packages[@]}" </dev/null >"$log" 2>&1; }
# A fresh system has no package lists yet, and an old one has stale ones.
if ! install && ! { apt-get update </dev/null >"$log" 2>&1 && install; }; then
    tail -20 "$log" >&2
    echo "apt-get could not install ${packages[*]}: see above, check the network, then run make again." >&2
    exit 1
fi
rm -f "$log"
# Nor are they to start with the machine. Only what was installed just now: the others have a purpose of their own.
if [ -d /run/systemd/system ]; then
    for package in "${packages[@]}"; do
        case "$package" in
            iperf3 | nfs-ganesha | nginx | vsftpd) systemctl disable --quiet "$package" || true ;;
            samba) systemctl disable --quiet smbd nmbd || true ;;
        esac
    done
fi
