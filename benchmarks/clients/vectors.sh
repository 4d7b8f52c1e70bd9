#!/usr/bin/env bash
# What well-known clients do with the vectors of client/testdata/vectors: how long after the last answer of each they
# send again. Their clocks are false, so that a wait of an hour takes no time: a client sees that its
# time passes only while it sleeps. Each client is created as its documents say, with its retry
# switched on. LANGUAGES has those to ask: python node go.
SERVER=${SERVER:-/bin/true} # each client has a server of its own
source "$(dirname "$0")/lib.sh" >/dev/null
languages=${LANGUAGES:-python node go}
export VECTORS=${VECTORS:-$here/../../client/testdata/vectors}
(cd "$here" && go build -o "$dir/judge" ./vectors)
rows=$dir/rows.jsonl

# asked LANGUAGE NAME RELEASE COMMAND... appends what the client did, an object for each vector.
asked() {
	local language=$1 name=$2 release=$3
	shift 3
	wanted "$name" || return 0
	if "$@" "$name" >one.txt; then
		sed -n "s|^{|{\"language\":\"$language\",\"client\":\"$name\",\"release\":\"$release\",|p" one.txt >>"$rows"
	else
		echo "$name: not run" >&2
	fi
}

asked_pins() {
	local language=$1 name release
	shift
	while read -r name release; do
		[[ -n "$name" ]] || continue
		asked "$language" "$name" "$release" "$@" </dev/null
	done
}

ask_python() {
	local pins='
requests 2.34.2
httpx-retries 0.6.0
openai 3.57.0
azure-core 1.41.0
PyGithub 2.10.0
stripe 16.1.0
'
	python_with $(awk 'NF { print $1 "==" $2 }' <<<"$pins") urllib3==2.8.0 time-machine==2.19.0
	cp "$here/vectors/testdata/client.py" .
	asked_pins Python venv/bin/python client.py <<<"$pins"
}

ask_node() {
	local pins='
got 16.1.0
ky 2.1.0
axios-retry 4.5.0
retry-axios 4.0.3
undici 8.13.1
openai 7.59.0
@azure/core-rest-pipeline 1.25.1
@octokit/plugin-throttling 11.0.5
'
	node_with $(awk 'NF { print $1 "@" $2 }' <<<"$pins") axios@1.21.1 @octokit/core@7.0.8
	cp "$here/vectors/testdata/client.mjs" .
	asked_pins JavaScript node client.mjs <<<"$pins"
}

ask_go() {
	local pins='
github.com/hashicorp/go-retryablehttp v0.7.8
github.com/Azure/azure-sdk-for-go/sdk/azcore v1.24.0
github.com/go-resty/resty/v2 v2.17.2
'
	mkdir go-clients && cd go-clients
	cp "$here/vectors/testdata/client_test.go" .
	go_with $(awk 'NF { print $1 "@" $2 }' <<<"$pins")
	go mod edit -require=github.com/weir-go/weir@v0.0.0 -replace="github.com/weir-go/weir=$here/../.."
	go test -c -o ../client.test .
	cd ..
	asked_pins Go ./client.test -client <<<"github.com/weir-go/weir/client this
$pins"
}

for language in $languages; do
	"ask_$language"
done
printf '# vectors\n\nWritten by `benchmarks/clients/vectors.sh`, %s\n\n' "$(date -u +%F)"
"$dir/judge" -vectors "$VECTORS" "$rows"
