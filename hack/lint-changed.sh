#!/usr/bin/env bash
# Runs the linter on the packages whose files differ from where this branch has left main, committed or not. What a
# change does to packages that it does not touch is left to `make lint`, which is part of `make test`.
# Usage: hack/lint-changed.sh COMMAND…, which is how golangci-lint is called; BASE says from where.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

base=${BASE:-}
for branch in origin/main main HEAD; do
  [ -n "$base" ] || base=$(git merge-base "$branch" HEAD 2>/dev/null) || :
done
# Another configuration or another version of the linter may find something anywhere.
if ! git diff --quiet "$base" -- .golangci.yml hack/tools; then
  echo 'The linter itself has changed: all packages are read.'
  exec make lint
fi
changed=$({
  git diff --name-only --diff-filter=d "$base" -- '*.go'
  git ls-files --others --exclude-standard -- '*.go'
} | xargs -r dirname | sort -u | grep -v /testdata) || :
for module in . sandbox test/monitoring; do
  packages=()
  for folder in $changed; do
    case $module:$folder/ in
    .:sandbox/* | .:test/monitoring/* | .:test/stores/* | .:hack/tools/*) continue ;;
    .:*) packages+=("./$folder") ;;
    *:"$module"/*) packages+=(".${folder#"$module"}") ;;
    esac
  done
  printf '%s: %d packages have changed\n' "$module" ${#packages[@]}
  [ ${#packages[@]} -gt 0 ] || continue
  (cd "$module" && "$@" --config "$root/.golangci.yml" "${packages[@]}")
done
