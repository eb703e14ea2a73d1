#!/usr/bin/env bash
# Tests the whole HTTP API from its OpenAPI document: schemathesis makes up requests, valid and not, and checks that
# every answer is one that the document allows. TERAHAUL names the program; SCHEMATHESIS_EXAMPLES how many a call.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
program=${TERAHAUL:-target/release/terahaul}

scripts/install-tools.sh curl
scripts/install-python.sh schemathesis
# The depot is on this machine, whatever leads to others.
export no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
work=$(mktemp -d)
trap 'kill "$depot" 2>/dev/null || true; rm -rf "$work"' EXIT

"$program" serve --json --listen 127.0.0.1:0 --data "$work/data" --quota 1GB >"$work/ready" 2>"$work/log" &
depot=$!
for _ in $(seq 100); do
    [ -s "$work/ready" ] && break
    kill -0 "$depot" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
    sleep 0.1
done
field() { python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())[sys.argv[1]])' "$1" <"$work/ready"; }
page=$(field page)
url=${page%%/#*}
token=$(field token)

# Something to read: one finished transfer, which the tests of downloads use.
api() { curl --silent --show-error --fail -H "Authorization: Bearer $token" -H "Content-Type: ${type:-application/json}" "$@"; }
made=$(api "$url/api/v1/transfers" -d '{"name":"read me"}')
id=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])' <<<"$made")
api "$url/api/v1/transfers/$id/entries" -d '{"first":0,"seal":true,"entries":[{"path":"a.txt","kind":"file","size":5}]}' >"$work/answer"
type=application/octet-stream api -X PUT "$url/api/v1/transfers/$id/bytes/0" -d hello >"$work/answer"
api -X POST "$url/api/v1/transfers/$id/finish" >"$work/answer"

status=0
cat crates/terahaul-depot/tests/schemathesis.toml scripts/schemathesis.toml >"$work/schemathesis.toml"
# In a folder of its own: it keeps the cases it found where it runs.
(cd "$work" && TERAHAUL_TOKEN=$token TRANSFER=$id "$root/target/venv/bin/schemathesis" --no-color \
    --config-file "$work/schemathesis.toml" run "$url/api/v1/openapi.json" \
    --max-examples "${SCHEMATHESIS_EXAMPLES:-15}" --seed 1 --workers 1 \
    --report junit --report-junit-path "$work/report.xml" >"$work/output" 2>&1 </dev/null) || status=$?
[ "$status" -eq 0 ] || cat "$work/output"
if ! kill -0 "$depot" 2>/dev/null; then
    echo "the depot ended during the test:" && tail -20 "$work/log"
    status=1
fi
# One line that .ci/run adds up, in cargo's form: a test case is an operation of the API.
python3 - "$work/report.xml" <<'PYTHON'
import sys
import xml.etree.ElementTree as tree

cases = list(tree.parse(sys.argv[1]).getroot().iter("testcase"))
bad = sum(1 for case in cases if case.find("failure") is not None or case.find("error") is not None)
print(f"test result: {'FAILED' if bad else 'ok'}. {len(cases) - bad} passed; {bad} failed; the API by its OpenAPI document")
PYTHON
exit "$status"
