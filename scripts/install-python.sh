#!/usr/bin/env bash
# Installs the named Python packages into target/venv, only where the versions asked for are not there:
# scripts/install-python.sh schemathesis==4.32.5
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$root/target/venv
stamps=$venv/.installed

wanted=()
for package in "$@"; do
    [ -e "$stamps/$package" ] || wanted+=("$package")
done
[ ${#wanted[@]} -eq 0 ] && exit 0

"$root/scripts/install-tools.sh" python3-venv
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
mkdir -p "$stamps"
echo "installing ${wanted[*]} into target/venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "${wanted[@]}" </dev/null
for package in "${wanted[@]}"; do touch "$stamps/$package"; done
