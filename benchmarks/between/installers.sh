#!/usr/bin/env bash
# Nine installers of packages through one token bucket of 10 a second, burst 10, by address, before a
# mirror. Each installs about 61 packages with an empty cache. The mirror is made of one install with
# npm, pip, cargo and go each, and asks nothing of the outside afterwards. A cell has whether the
# install succeeded, the seconds from its first request to its last answer, its denials, and the
# denials for each request that it needs. The ideal is the time in which the bucket admits them.
#
# It needs go, npm, python3 (3.9 or later, with venv) and cargo, and takes half an hour. Arguments are
# names of installers, and then only these run. EACH=1 prints when each denied request came again.
# ANSWER has the answers to run, with commas. COST=1 prints what an install costs, and denies nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for program in go npm python3 cargo; do
	command -v "$program" >/dev/null || { echo "installers.sh is skipped: it needs $program."; exit 0; }
done
dir=$(mktemp -d)
# Go writes its module cache without write permission.
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
(cd "$here" && go build -o "$dir/installers" ./installers)
names=" $* "
cd "$dir"
# The command that rustup has put before cargo looks for its toolchains in HOME.
export RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup} CARGO=$(rustup which cargo 2>/dev/null || command -v cargo)
unset PIP_FIND_LINKS
export GOFLAGS=-modcacherw GOSUMDB=off PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1

# The installers.
mkdir tools
(
	cd tools
	npm init -y >/dev/null
	npm install --silent --no-fund --no-audit node@24.21.0 npm@11.19.1 pnpm@12.21.0 yarn@1.22.22 \
		@yarnpkg/cli-dist@4.18.1 bun@1.4.4 >&2
)
export PATH=$dir/tools/node_modules/.bin:$PATH YARN=$dir/tools/node_modules/yarn/bin/yarn.js
export YARN4=$dir/tools/node_modules/@yarnpkg/cli-dist/bin/yarn.js
python3 -m venv venv
venv/bin/pip install -q pip==26.3 uv==0.13.8 >&2
export VENV=$dir/venv

# What they install, and what the mirror has.
express=5.1.0 jupyter_server=2.17.0 axum=0.8.4 clap=4.5.40 gin=1.12.0
export MANIFEST='{"name":"installed","version":"1.0.0","private":true,"dependencies":{"express":"'$express'"}}'
export WHEEL=jupyter-server==$jupyter_server
export CRATES='[package]
name = "installed"
version = "1.0.0"
edition = "2021"
[lib]
path = "/dev/null"
[dependencies]
axum = "='$axum'"
clap = { version = "='$clap'", features = ["derive"] }'
mkdir npm-project cargo-project go-project
(cd npm-project && echo "$MANIFEST" >package.json && npm install --silent --no-fund --no-audit --cache "$dir/npm" >&2)
venv/bin/pip download -q -d wheels "$WHEEL" >&2
export TARGET=$(rustc -vV | sed -n 's/^host: //p')
(cd cargo-project && echo "$CRATES" >Cargo.toml && CARGO_HOME=$dir/cargo "$CARGO" fetch -q --target "$TARGET" >&2)
export GO_PROJECT=$dir/go-project
(
	cd go-project
	export GOMODCACHE=$dir/go
	go mod init example.com/installed
	printf 'package installed\n\nimport _ "github.com/gin-gonic/gin"\n' >installed.go
	go get github.com/gin-gonic/gin@v"$gin"
	go mod tidy
	chmod -R u+w "$dir/go" && rm -r "$dir/go"
	go mod download
) >&2 2>go.log || { cat go.log >&2; exit 1; }

# through MIRROR NAME VERSION COMMAND prints a row.
through() {
	[[ "$names" == "  " || "$names" == *" $2 "* ]] || return 0
	"$dir/installers" -serve "$1" -name "$2 $3" -each="${EACH:-0}" -answer "${ANSWER:-}" \
		${COST:+-act "an install of PACKAGES packages"} -- bash -ec "$4"
}

manifest='echo "$MANIFEST" >package.json'
"$dir/installers" -head ${COST:+-act any}
through npm=npm npm "$(npm --version)" "$manifest
npm install --registry \$URL/ --no-fund --no-audit --ignore-scripts --no-update-notifier"
through npm=npm pnpm "$(pnpm --version)" "$manifest
pnpm install --registry \$URL/ --ignore-scripts --store-dir store"
through npm=npm yarn-1 "$(node "$YARN" --version)" "$manifest
YARN_CACHE_FOLDER=\$PWD/cache node \$YARN install --registry \$URL/ --ignore-scripts --non-interactive"
through npm=npm yarn-4 "$(node "$YARN4" --version)" "$manifest
touch yarn.lock
export YARN_NPM_REGISTRY_SERVER=\$URL YARN_UNSAFE_HTTP_WHITELIST=127.0.0.1 YARN_ENABLE_IMMUTABLE_INSTALLS=false YARN_ENABLE_TELEMETRY=false YARN_ENABLE_SCRIPTS=false
node \$YARN4 install"
through npm=npm bun "$(bun --version)" "$manifest
bun install --registry \$URL/ --ignore-scripts"
through wheels=wheels pip "$(venv/bin/pip --version | cut -d' ' -f2)" \
	'$VENV/bin/pip install --no-compile --target installed --index-url $URL/simple/ "$WHEEL"'
through wheels=wheels uv "$(venv/bin/uv --version | cut -d' ' -f2)" \
	'$VENV/bin/uv pip install --python $VENV/bin/python --target installed --index-url $URL/simple/ "$WHEEL"'
through cargo=cargo cargo "$("$CARGO" --version | cut -d' ' -f2)" 'echo "$CRATES" >Cargo.toml
mkdir cargo
printf "[source.crates-io]\nreplace-with = \"mirror\"\n[source.mirror]\nregistry = \"sparse+$URL/\"\n" >cargo/config.toml
CARGO_HOME=$PWD/cargo "$CARGO" fetch --target "$TARGET"'
through go=go go "$(go env GOVERSION | sed 's/^go//')" 'cp "$GO_PROJECT"/* .
GOMODCACHE=$PWD/modules GOPROXY=$URL go mod download'
