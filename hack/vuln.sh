#!/usr/bin/env bash
# Looks for known vulnerabilities in code that is called, in both modules, and fails if there is one. The data is what
# GOVULNDB names, or vuln.go.dev. Without either one it says so in one line and holds nobody up: a change must pass
# without a network. A GOVULNDB that is named and cannot be read fails, because somebody wants it.
# Usage: hack/vuln.sh COMMAND…, which is how govulncheck is called.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

data=${GOVULNDB:-https://vuln.go.dev}
case $data in
file://*) [ -r "${data#file://}/index/db.json" ] && found=yes || found=no ;;
*) curl --fail --silent --location --max-time 3 --output /dev/null "$data/index/db.json" 2>/dev/null && found=yes || found=no ;;
esac
if [ "$found" = no ]; then
  echo "No data of vulnerabilities: $data has no index/db.json that can be read within 3 s. Nothing was looked for."
  [ -z "${GOVULNDB:-}" ] && exit 0
  exit 1
fi
for module in . sandbox; do
  status=0
  (cd "$module" && "$@" ./...) || status=$?
  # 3 is what govulncheck says when it has found one; all else is that it could not look.
  case $status in
  0) continue ;;
  3) exit 3 ;;
  esac
  if [ -n "${GOVULNDB:-}" ]; then
    exit "$status"
  else
    echo "govulncheck could not look through the module $module (code $status)."
  fi
done
