#!/bin/sh
# Starts nginx on $PORT with a folder of its own for what it writes.
set -e
folder=$(mktemp -d)
mkdir "$folder/tmp"
sed "s/\$PORT/$PORT/" nginx.conf >"$folder/nginx.conf"
echo Hello. >"$folder/page.txt"
PATH=$PATH:/usr/sbin # where Debian has it
exec nginx -p "$folder" -c nginx.conf
