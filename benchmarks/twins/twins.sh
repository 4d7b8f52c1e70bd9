#!/bin/sh
# Compares package memory of the working tree with that of an earlier commit, in one process.
#
#   twins.sh commit [rounds]
#
# Pairs of binaries differ by 5% and more by chance, as their code is laid out. So this builds one
# program of both packages, which take turns every few hundred operations.
set -eu

root=$(git -C "$(dirname -- "$0")" rev-parse --show-toplevel)
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
trap 'exit 130' INT TERM

cp -R "$root/." "$built/now"
mkdir -p "$built/before"
git -C "$root" archive "$1" memory internal | tar -x -C "$built/before"
for package in memory internal/ground/family; do
  [ -d "$built/before/$package" ] || continue
  mkdir -p "$built/now/internal/before/$package"
  for file in "$built/before/$package"/*.go; do
    case $file in *_test.go) continue ;; esac
    sed 's#weir-go/weir/memory"#weir-go/weir/internal/before/memory"#
      s#weir-go/weir/internal/ground/family"#weir-go/weir/internal/before/internal/ground/family"#' "$file" \
      >"$built/now/internal/before/$package/$(basename "$file")"
  done
done
mkdir "$built/now/internal/before/twins"
cp "$root/benchmarks/twins/testdata/twins.go" "$built/now/internal/before/twins/"
(cd "$built/now" && go build -o "$built/twins" ./internal/before/twins)
GOMAXPROCS=${PROCS:-2} "$built/twins" "${2:-2000}"
