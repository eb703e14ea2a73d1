#!/usr/bin/env bash
# Installs the page's packages when the lock file is not the one they were installed from.
set -euo pipefail
cd "$(dirname "$0")/../web"

for tool in node npm; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: install Node.js 20 or newer, then run make again." >&2; exit 1; }
done
if [ "$(node -p 'Number(process.versions.node.split(".")[0])')" -lt 20 ]; then
    echo "Node.js $(node --version) is too old: install version 20 or newer, then run make again." >&2
    exit 1
fi
mkdir -p ../target
# Others may be installing just now.
exec 9>../target/web.lock
flock 9
cmp -s package-lock.json node_modules/.installed-from 2>/dev/null && exit 0
# What it is built with is wanted in any case (NODE_ENV=production leaves it out).
npm ci --include=dev --include=optional --no-audit --no-fund --loglevel=error </dev/null
cp package-lock.json node_modules/.installed-from
