#!/bin/sh
# Compares weir with its peers and prints Markdown tables on standard output.
#
#   run.sh [group] [rounds]
#
# group: decision, memory, sizes, flood, http, frameworks, redis, lifecycle, lease, instances,
# client, shed, graph, shedreal, shedmixed, cost, failover, silent, rights, or all but the last four
# (the default)
# rounds: how often contestants take their turns in decision, http, frameworks, redis,
# lifecycle, lease, instances and client; how many seeds shed and graph have (default 6). The
# groups sizes, redis, lifecycle, lease, instances, failover, silent and rights need redis-server on
# the PATH, failover haproxy, too. SERVER names another server, such as valkey-server.
#
# PROCS is the number of processors to use (default 2). See README.md.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
trap 'exit 130' INT TERM

(cd "$here" && go build -o "$built/benchmarks" .)
GOMAXPROCS=${PROCS:-2} "$built/benchmarks" "$@"
