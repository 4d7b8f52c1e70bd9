#!/usr/bin/env bash
# Which programs repeat a 429 and which a 503, how often, and after what waits. Every request is denied,
# by a rule with a wait of 7 s, and then by the same with DenyAs503. A program that still asks after a
# minute is cut off. It needs what errors.sh needs, and takes half an hour.
source "$(dirname "$0")/answers/lib.sh"
vegeta=12.13.0 hey=0.1.5
go_program vegeta github.com/tsenart/vegeta/v12@v"$vegeta"
go_program hey github.com/rakyll/hey@v"$hey"
"$dir/answers" -table statuses -head
installers
# Is an answer to the second request any use?
parent="<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>thing</artifactId><version>1</version><packaging>pom</packaging></project>"
for version in $mavens; do
	ask 'Maven, the second is answered' "$version" "$(maven_command "$version")" -then "$parent"
done
packaged 'restic, with HEAD allowed' restic 'RESTIC_PASSWORD=x restic -r rest:$URL/ snapshots' -allow-head
packaged curl curl 'curl -sS --fail $URL'
packaged 'curl --retry 3' curl 'curl -sS --fail --retry 3 $URL'
packaged wget wget 'wget -nv -O /dev/null $URL'
packaged 'wget --retry-on-http-error=429,503' wget 'wget -nv -O /dev/null --tries=3 --retry-on-http-error=429,503 $URL'
packaged wget2 wget2 'wget2 -nv -O /dev/null $URL'
packaged aria2c aria2 'aria2c --no-conf $URL/file'
packaged 'aria2c --retry-wait=2' aria2 'aria2c --no-conf --retry-wait=2 $URL/file'
ask hey "$hey" 'hey -n 1 -c 1 $URL/'
ask vegeta "$vegeta" 'echo GET $URL/ | vegeta attack -rate 1 -duration 1s | vegeta report'
# Prometheus sends "up" of a target that is not there.
prometheus='printf "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: none\n  static_configs: [{targets: [\"127.0.0.1:1\"]}]\nremote_write:\n- url: $URL/write\n  queue_config: {batch_send_deadline: 1s, retry_on_http_429: %s}\n" $RETRY >prometheus.yml
exec prometheus --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address=127.0.0.1:0'
packaged 'prometheus, remote write' prometheus "RETRY=false; $prometheus" -bound 20s
packaged 'prometheus, retry_on_http_429' prometheus "RETRY=true; $prometheus" -bound 20s
