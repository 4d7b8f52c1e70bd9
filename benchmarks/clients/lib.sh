# Sourced by the programs beside it. It makes a temporary folder, builds the server there, or takes
# SERVER, and defines ask. The programs take names of clients as arguments, and then run these alone.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(mktemp -d)
# Go writes its module cache without write permission.
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
if [[ -n "${SERVER:-}" ]]; then
	cp "$SERVER" "$dir/server"
else
	(cd "$here" && go build -o "$dir/server" ./server)
fi
cd "$dir"
names=" $* "
printf '# %s\n\nWritten by `benchmarks/clients/%s`, ' "$(basename "$0" .sh)" "$(basename "$0")"
"$dir/server" -head

# wanted reports whether the program was asked to run the client $1.
wanted() { [[ "$names" == "  " || "$names" == *" $1 "* ]]; }

# ask LANGUAGE NAME RELEASE COMMAND... runs the client in all cases, or in those of CASES, against
# weir as ANSWER says. The others run even if one cannot.
ask() {
	local language=$1 name=$2 release=$3
	shift 3
	wanted "$name" || return 0
	"$dir/server" -language "$language" -client "$name" -release "$release" \
		-answer "${ANSWER:-default}" -case "${CASES:-}" -- "$@" || echo "$name: not run" >&2
}

# ask_pins LANGUAGE COMMAND... asks each client of the lines NAME RELEASE on standard input, with the
# name as the last argument of the command.
ask_pins() {
	local language=$1 name release
	shift
	while read -r name release; do
		[[ -n "$name" ]] || continue
		ask "$language" "$name" "$release" "$@" "$name" </dev/null
	done
}

# debian NAME... installs packages of Debian that are missing.
debian() {
	local missing
	missing=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | awk '$1 == "installed" { print $2 }')
	missing=$(comm -23 <(printf '%s\n' "$@" | sort) <(sort <<<"$missing"))
	[[ -z "$missing" ]] && return 0
	apt-get update -q >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $missing >&2
}

# release_of PACKAGE prints the upstream version of a package of Debian.
release_of() { dpkg-query -W -f '${Version}' "$1" | sed 's/^[0-9]*://; s/-[^-]*$//; s/[+~].*//; s/\.dfsg$//; s/\.20[0-9]*$//'; }

# node_with PACKAGE@RELEASE... installs Node and the packages of npm, or takes MODULES, which has them.
node_with() {
	if [[ -n "${MODULES:-}" ]]; then
		ln -s "$MODULES" node_modules
		return
	fi
	npm init -y >/dev/null
	npm install --silent --no-fund --no-audit node@24.21.0 >&2
	export PATH=$dir/node_modules/.bin:$PATH
	npm install --silent --no-fund --no-audit "$@" >&2
}

# python_with PACKAGE==RELEASE... makes venv with the packages of PyPI, or takes VENV, which has them.
python_with() {
	if [[ -n "${VENV:-}" ]]; then
		ln -s "$VENV" venv
		return
	fi
	python3 -m venv venv
	venv/bin/pip install -q --disable-pip-version-check "$@" >&2
}

# go_with MODULE@VERSION... makes a module with them. Unless GOPATH is set, its folder is a temporary one.
go_with() {
	export GOPATH=${GOPATH:-$dir/go} GOFLAGS=-mod=mod
	go mod init denied >/dev/null 2>&1
	go get "$@" >&2
}
