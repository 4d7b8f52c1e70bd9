#!/bin/sh
# Starts HAProxy on $PORT.
PATH=$PATH:/usr/sbin # where Debian has it
exec haproxy -db -f haproxy.cfg
