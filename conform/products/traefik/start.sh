#!/bin/sh
# Starts Traefik on $PORT.
set -e
exec traefik --entrypoints.web.address="127.0.0.1:$PORT" --entrypoints.web.forwardedheaders.trustedips=127.0.0.0/8 \
  --providers.file.filename=dynamic.yaml \
  --ping=true --ping.manualrouting=true --log.level=ERROR \
  --global.checknewversion=false --global.sendanonymoususage=false
