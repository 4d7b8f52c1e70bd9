#!/usr/bin/env bash
# What one act of a person costs, in requests, of which so many are in flight at once. The servers are
# on loopback and answer after a tenth of a second. It needs go, npm, python3 (3.10 or later, with
# venv), git, and Debian's apt-get and dpkg-deb for kubectl. It prints the rows of installs by
# installers.sh, too. Arguments are names of other acts, and then only these run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for program in go npm python3 git; do
	command -v "$program" >/dev/null || { echo "acts.sh is skipped: it needs $program."; exit 0; }
done
dir=$(mktemp -d)
server=
trap 'if [[ -n "$server" ]]; then kill "$server" 2>/dev/null || true; fi; rm -rf "$dir"' EXIT
(cd "$here" && go build -o "$dir/installers" ./installers)
names=" $* "
cd "$dir"
unset PIP_FIND_LINKS
export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1

# costs SERVER NAME VERSION ACT COMMAND prints a row.
costs() { ./installers -each="${EACH:-0}" -serve "$1" -name "$2 $3" -act "$4" -- bash -ec "$5"; }
wanted() { [[ "$names" == "  " || "$names" == *" $1 "* ]]; }

# debian PACKAGE VERSION FILE extracts a package of Debian to a folder of its name, without installing it.
debian() {
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null &&
		apt-get download -q -o APT::Sandbox::User=root "$1=$2" >&2 && dpkg-deb -x "$1"_*.deb "$1"
}

if [[ "$names" == "  " ]]; then
	COST=1 "$here/installers.sh"
else
	./installers -head -act any
fi
if wanted uv; then
	python3 -m venv uv && uv/bin/pip install -q uv==0.13.8 && uv/bin/pip download -q --no-deps -d wheels idna==3.11 >&2
	export UV=$dir/uv/bin
	costs wheels=wheels uv "$(uv/bin/uv --version | cut -d' ' -f2)" "one wheel" \
		'$UV/uv pip install --python $UV/python --target installed --index-url $URL/simple/ idna==3.11'
fi
if wanted gdal; then
	python3 -m venv gdal && gdal/bin/pip install -q rasterio==1.4.4 >&2
	mkdir files
	gdal/bin/python - <<'PY'
import numpy, rasterio
pixels = numpy.random.default_rng(1).integers(0, 255, (2048, 2048), dtype='uint8')
with rasterio.open('files/image.tif', 'w', driver='COG', width=2048, height=2048, count=1, dtype='uint8', blocksize=512,
                   crs='EPSG:4326', transform=rasterio.transform.from_bounds(0, 0, 1, 1, 2048, 2048)) as image:
    image.write(pixels, 1)
PY
	export PYTHON=$dir/gdal/bin/python
	release=$(gdal/bin/python -c 'import rasterio; print(rasterio.__gdal_version__, "of rasterio", rasterio.__version__)')
	read='import os, rasterio; rasterio.open(os.environ["URL"] + "/image.tif").read(1)'
	costs files=files GDAL "$release" "open and read an image of 4 MB" "\$PYTHON -c '$read'"
	costs files=files GDAL "$release" "the same with \`GDAL_DISABLE_READDIR_ON_OPEN=EMPTY_DIR\`" \
		"GDAL_DISABLE_READDIR_ON_OPEN=EMPTY_DIR \$PYTHON -c '$read'"
fi
if wanted kubectl; then
	kubectl='1.20.5+really1.20.2-1.1+deb12u1'
	if debian kubernetes-client "$kubectl"; then
		export KUBECTL=$dir/kubernetes-client/usr/bin/kubectl
		costs kubernetes= kubectl "$kubectl" "\`kubectl get pods\`, the first time" '$KUBECTL --server $URL get pods'
		costs kubernetes= kubectl "$kubectl" "\`kubectl get pods\`, twice" \
			'$KUBECTL --server $URL get pods; $KUBECTL --server $URL get pods'
	else
		echo "kubectl: not run" >&2
	fi
fi
if wanted mcp; then
	python3 -m venv mcp && mcp/bin/pip install -q mcp==2.3.0 >&2
	cat >server.py <<'PY'
import socket, sys
import uvicorn
from mcp.server import MCPServer

server = MCPServer('server')

@server.tool()
def echo() -> str:
    return 'hello'

listener = socket.create_server(('127.0.0.1', 0))
print(f'http://127.0.0.1:{listener.getsockname()[1]}', flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level='error')).run([listener])
PY
	coproc mcp/bin/python server.py
	server=$!
	read -r address <&"${COPROC[0]}"
	cat >client.py <<'PY'
import asyncio, os
from mcp import Client

async def main():
    async with Client(os.environ['URL'] + '/mcp') as client:
        print((await client.list_tools()).tools[0].name, (await client.call_tool('echo', {})).content)
asyncio.run(main())
PY
	export MCP=$dir
	costs "proxy=$address" mcp "2.3.0 for Python" "connect, list the tools, call one" '$MCP/mcp/bin/python $MCP/client.py'
	cat >old.py <<'PY'
import asyncio, os
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

async def main():
    async with streamable_http_client(os.environ['URL'] + '/mcp') as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            print((await session.list_tools()).tools[0].name, (await session.call_tool('echo', {})).content)
asyncio.run(main())
PY
	costs "proxy=$address" mcp "2.3.0 for Python" "the same in a session" '$MCP/mcp/bin/python $MCP/old.py'
	kill "$server" && { wait "$server" 2>/dev/null || true; }
	server=
fi
if wanted git; then
	git init -q --bare repositories/inner.git
	git init -q work
	(
		cd work
		export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@localhost GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@localhost
		for i in 1 2 3; do
			echo "$i" >file && git add file && git commit -q -m "Commit $i"
		done
		git push -q ../repositories/inner.git HEAD:main
		git -C ../repositories/inner.git symbolic-ref HEAD refs/heads/main
	)
	git=$(git --version | cut -d' ' -f3)
	costs "git=$dir/repositories" git "$git" "\`git clone\`" 'git clone -q $URL/inner.git'
	costs "git=$dir/repositories" git "$git" "\`git clone --depth 1\`" 'git clone -q --depth 1 $URL/inner.git'
fi
