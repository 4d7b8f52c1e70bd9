#!/usr/bin/env bash
# What a denied probe costs. Balancers probe a server of weir that allows an address 10 requests a
# minute; the table says for how many of 60 seconds they have no server. Programs are run right after
# ten others at their address have sent the same probe. Each has one column where probes count like
# other requests, and one where they have a limit of their own: 100 a minute. It needs go, and asks the
# haproxy, envoy, varnishd and gem that it finds. The others are packages of Debian 12, which it unpacks
# into a temporary folder, and rasterio of PyPI, which has GDAL. It takes two minutes. Arguments are the programs to run: probes.sh haproxy gem
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
chmod 755 "$work" # Varnish has a user of its own
trap 'rm -rf "$work"' EXIT
(cd "$here" && go build -o "$work/probes" ./probes)
cd "$work"
names=" $* "

# unpack NAME=VERSION... unpacks packages of Debian if one of the programs is to run.
unpack() {
	apt-get download -q "$@" >download 2>&1 || { echo "not unpacked, $*: $(tail -n 1 download)" >&2; return 0; }
	for deb in *.deb; do dpkg-deb -x "$deb" debian; done
	rm -- *.deb
}
case $names in
"  " | *" skopeo "* | *" rclone "* | *" restic "*)
	skopeo=1.9.3+ds1-1+b10 registry=2.8.2+ds1-1 rclone=1.60.1+dfsg-2+b5 restic=0.14.0-1+b5
	unpack "skopeo=$skopeo" "docker-registry=$registry" "rclone=$rclone" "restic=$restic"
	;;
esac
if [[ "$names" == "  " || "$names" == *" gdal "* ]]; then
	python3 -m venv venv && venv/bin/pip install -q --disable-pip-version-check rasterio==1.4.4 >&2 ||
		echo "gdal is left out: PyPI gives no rasterio" >&2
fi
PATH=$work/debian/usr/bin:$PATH:/usr/sbin ./probes "$@"
