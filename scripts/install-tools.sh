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
        b3sum | chromium | curl | jq | nginx | rsync | unzip) echo "$1" ;;
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
        sshd | nginx) command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] ;;
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
install() { apt-get install -y --no-install-recommends "${packages[@]}" </dev/null >"$log" 2>&1; }
# A fresh system has no package lists yet, and an old one has stale ones.
if ! install && ! { apt-get update </dev/null >"$log" 2>&1 && install; }; then
    tail -20 "$log" >&2
    echo "apt-get could not install ${packages[*]}: see above, check the network, then run make again." >&2
    exit 1
fi
rm -f "$log"
