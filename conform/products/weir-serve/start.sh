#!/bin/sh
# Starts weir serve, and nginx in front of it on $PORT.
set -e
folder=$(mktemp -d)
chmod 755 "$folder"
mkdir -m 777 "$folder/tmp"
echo Hello. >"$folder/page.txt"
sed "s|\$PORT|$PORT|; s|\$FOLDER|$folder|" nginx.conf >"$folder/nginx.conf"
WEIR_REDIS_URL=$STORE ./server serve --denied-status 403 --redis-budget 1s --check "unix:$folder/weir.sock" --socket-mode 0666 \
  --grpc '' --operator '' weir.yaml &
PATH=$PATH:/usr/sbin # where Debian has it
exec nginx -p "$folder" -c nginx.conf
