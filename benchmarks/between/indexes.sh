#!/usr/bin/env bash
# What installers with two indexes of packages do if one of them is denied: the first index has idna
# 3.11 and is denied, the second has 3.10. It needs go and python3 (3.9 or later, with venv).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for program in go python3; do
	command -v "$program" >/dev/null || { echo "indexes.sh is skipped: it needs $program."; exit 0; }
done
dir=$(mktemp -d)
second=
trap 'if [[ -n "$second" ]]; then kill "$second" 2>/dev/null || true; fi; rm -rf "$dir"' EXIT
(cd "$here" && go build -o "$dir/installers" ./installers)
cd "$dir"
unset PIP_FIND_LINKS
export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 VENV=$dir/venv
python3 -m venv venv
venv/bin/pip install -q pip==26.3 uv==0.13.8 >&2
venv/bin/pip download -q --no-deps -d private idna==3.11 >&2
venv/bin/pip download -q --no-deps -d public/simple/idna idna==3.10 >&2
# Python's server lists a folder as a page of links, which is all that an index is.
coproc venv/bin/python -u -m http.server --bind 127.0.0.1 --directory public 0 2>/dev/null
second=$!
read -r line <&"${COPROC[0]}"
export SECOND=$(sed 's/.*(\(http[^)]*\)\/).*/\1/' <<<"$line")

# denied NAME VERSION COMMAND prints a row.
denied() { ./installers -each="${EACH:-0}" -busy -serve wheels=private -name "$1 $2" -- bash -ec "$3"; }
echo "| installer | denials | exit | its last line |"
echo "|---|---|---|---|"
denied pip "$(venv/bin/pip --version | cut -d' ' -f2)" \
	'$VENV/bin/pip install --target installed --index-url $URL/simple/ --extra-index-url $SECOND/simple/ idna'
denied "pip, without the second index," "$(venv/bin/pip --version | cut -d' ' -f2)" \
	'$VENV/bin/pip install --target installed --index-url $URL/simple/ idna'
denied uv "$(venv/bin/uv --version | cut -d' ' -f2)" \
	'$VENV/bin/uv pip install --python $VENV/bin/python --target installed --index-url $SECOND/simple/ --extra-index-url $URL/simple/ idna'
