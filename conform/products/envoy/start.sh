#!/bin/sh
# Starts Envoy on $PORT.
set -e
exec envoy --use-dynamic-base-id --concurrency 2 -l error --config-yaml "$(sed "s/\$PORT/$PORT/" envoy.yaml)"
