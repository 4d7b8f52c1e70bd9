#!/usr/bin/env bash
# What programs print of weir's denial. Every request gets a 429 with Retry-After: 1, first as weir
# answers it, and then by PlainText. A row tells which form the program gets, as it asks, which part of
# it the program shows, and the line. Two lines are that of the first and that of PlainText.
#
#	benchmarks/between/errors.sh go npm
#
# It needs go, npm, python3, cargo, mvn, git, curl and unzip, installs what is missing of Debian 12 as
# root, and takes a quarter of an hour. The next run takes installed programs from PROGRAMS=folder.
NO_RETRY=--fetch-retries=0
source "$(dirname "$0")/answers/lib.sh"
"$dir/answers" -table errors -head
mavens="$maven $maven4" # 3.8 waits for minutes before it prints anything
installers
