# Sourced by errors.sh and statuses.sh. It builds answers into a temporary folder, installs the
# programs there, or takes them from PROGRAMS, where an earlier run has left them, and defines ask.
# Names of programs as arguments have these run alone.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
table=$(basename "$0" .sh)
for needed in go npm python3 cargo mvn git curl unzip; do
	command -v "$needed" >/dev/null || { echo "$table.sh is skipped: it needs $needed."; exit 0; }
done
dir=$(mktemp -d)
# Go writes its module cache without write permission.
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
(cd "$here" && go build -o "$dir/answers" .)
names=" $* "
export P=${PROGRAMS:-$dir/programs}
mkdir -p "$P/bin"
cd "$P"
# The command that rustup has put before cargo looks for its toolchains in HOME.
export RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup} CARGO=$(rustup which cargo 2>/dev/null || command -v cargo)
node=24.21.0 npm=11.19.1 pnpm=12.21.0 yarn=1.22.22 yarn4=4.18.1 bun=1.4.4 pip=26.3 uv=0.13.8 poetry=2.5.1
maven3=3.8.8 maven=3.9.16 maven4=4.0.0-rc-5 lfs=3.8.1 crane=0.22.1

export PATH=$P/bin:$P/node_modules/.bin:$PATH
export YARN=$P/node_modules/yarn/bin/yarn.js YARN4=$P/node_modules/@yarnpkg/cli-dist/bin/yarn.js

# wanted NAME... reports whether the program was asked to run one of these.
wanted() {
	local name
	for name; do
		[[ "$names" == "  " || "$names" == *" $name "* ]] && return
	done
	return 1
}

if wanted npm pnpm yarn bun && [[ ! -d node_modules ]]; then
	npm init -y >/dev/null
	npm install --silent --no-fund --no-audit node@"$node" npm@"$npm" pnpm@"$pnpm" yarn@"$yarn" \
		@yarnpkg/cli-dist@"$yarn4" bun@"$bun" >&2
fi
if wanted pip uv poetry && [[ ! -d venv ]]; then
	python3 -m venv venv
	venv/bin/pip install -q pip=="$pip" uv=="$uv" poetry=="$poetry" >&2
fi
mavens="$maven3 $maven $maven4"
for version in $mavens; do
	{ wanted Maven && [[ ! -d apache-maven-$version ]]; } || continue
	mvn -q -B dependency:copy -Dartifact=org.apache.maven:apache-maven:"$version":zip:bin -DoutputDirectory="$dir" >&2
	unzip -q "$dir/apache-maven-$version-bin.zip"
done
# go_program NAME MODULE@VERSION installs a command of the module proxy, unless it is there.
go_program() {
	wanted "$1" && [[ ! -x bin/$1 ]] || return 0
	GOFLAGS=-modcacherw GOPATH=${GOPATH:-$dir/go} GOBIN=$P/bin go install "$2" >&2 || echo "$1: not installed" >&2
}
go_program git-lfs github.com/git-lfs/git-lfs/v3@v"$lfs"
go_program crane github.com/google/go-containerregistry/cmd/crane@v"$crane"

# The packages of Debian that are missing.
missing=
for package in apt aria2 composer curl git git-lfs prometheus rclone restic ruby skopeo wget wget2; do
	dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=" $package"
done
if [[ -n "$missing" ]]; then
	apt-get update -q >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $missing >&2
fi

# ask NAME RELEASE COMMAND [OPTION...] runs the program against weir and prints its row. The others run
# even if one cannot.
ask() {
	local name=$1 release=$2 command=$3
	shift 3
	wanted "${name%%[ ,]*}" || return 0
	"$dir/answers" -table "$table" -name "$name" -release "$release" "$@" -- bash -ec "$command" ||
		echo "$name: not run" >&2
}

# packaged NAME PACKAGE COMMAND [OPTION...] is ask for a program of Debian.
packaged() {
	ask "$1" "$(dpkg-query -W -f '${Version}' "$2" | sed 's/^[0-9]*://; s/-[^-]*$//; s/[+~].*//')" "${@:3}"
}

# The projects that ask the registry for a package.
npm_project='echo "{\"name\":\"p\",\"version\":\"1.0.0\",\"dependencies\":{\"thing\":\"1.0.0\"}}" >package.json'
maven_project='mkdir .m2
echo "<settings><mirrors><mirror><id>m</id><mirrorOf>*</mirrorOf><url>$URL</url></mirror></mirrors></settings>" >.m2/settings.xml
echo "<project><modelVersion>4.0.0</modelVersion><parent><groupId>g</groupId><artifactId>thing</artifactId><version>1</version><relativePath/></parent><artifactId>a</artifactId><packaging>pom</packaging></project>" >pom.xml
export MAVEN_OPTS=-Duser.home=$HOME'
# maven_command VERSION prints the command of that release.
maven_command() { echo "$maven_project
\$P/apache-maven-$1/bin/mvn -B -s .m2/settings.xml -Dmaven.repo.local=\$HOME/repository validate"; }
lfs_project='export GIT_CONFIG_NOSYSTEM=1
git init -q r; cd r
git config lfs.locksverify false
git config lfs.url $URL/lfs
git remote add origin $URL/r.git
printf "version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 5\n" 1 >a.bin
echo "*.bin filter=lfs diff=lfs merge=lfs -text" >.gitattributes
git add . && git -c user.name=n -c user.email=e@example.com commit -qm m'

# The programs that both tables ask. npm and pnpm wait for a minute between: errors.sh has them ask
# once, by NO_RETRY. mavens are the releases of Maven.
installers() {
	ask go "$(go env GOVERSION | sed 's/^go//')" 'go mod init example.com/m 2>/dev/null
GOFLAGS=-modcacherw GOSUMDB=off GOPROXY=$URL go get example.com/thing@v1.0.0'
	ask cargo "$("$CARGO" --version | cut -d' ' -f2)" 'mkdir src cargo; touch src/lib.rs
printf "[package]\nname = \"p\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\nthing = \"1\"\n" >Cargo.toml
printf "[source.crates-io]\nreplace-with = \"m\"\n[source.m]\nregistry = \"sparse+$URL/\"\n" >cargo/config.toml
CARGO_HOME=$PWD/cargo "$CARGO" fetch'
	ask pip "$pip" \
		'PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 $P/venv/bin/pip download --no-cache-dir --index-url $URL/simple/ thing'
	ask uv "$uv" \
		'$P/venv/bin/uv pip install --python $P/venv/bin/python --target t --index-url $URL/simple/ thing'
	ask poetry "$poetry" \
		'printf "[project]\nname = \"p\"\nversion = \"1.0.0\"\nrequires-python = \">=3.9\"\ndependencies = [\"thing\"]\n[[tool.poetry.source]]\nname = \"m\"\nurl = \"$URL/simple/\"\npriority = \"primary\"\n" >pyproject.toml
$P/venv/bin/poetry lock -n'
	ask npm "$npm" "$npm_project
npm install --registry \$URL/ --no-fund --no-audit ${NO_RETRY:-}"
	ask pnpm "$pnpm" "$npm_project
${NO_RETRY:+echo fetchRetries: 0 >pnpm-workspace.yaml}
pnpm install --registry \$URL/ --store-dir store"
	ask yarn "$yarn" "$npm_project
node \$YARN install --registry \$URL/ --non-interactive"
	ask yarn "$yarn4" "$npm_project
touch yarn.lock
export YARN_NPM_REGISTRY_SERVER=\$URL YARN_UNSAFE_HTTP_WHITELIST=127.0.0.1 YARN_ENABLE_IMMUTABLE_INSTALLS=false YARN_ENABLE_TELEMETRY=false
node \$YARN4 install"
	ask bun "$bun" "$npm_project
bun install --registry \$URL/"
	local version
	for version in $mavens; do
		ask Maven "$version" "$(maven_command "$version")"
	done
	packaged composer composer 'echo "{\"repositories\":[{\"type\":\"composer\",\"url\":\"$URL\"},{\"packagist.org\":false}],\"config\":{\"secure-http\":false},\"require\":{\"a/thing\":\"1.0.0\"}}" >composer.json
COMPOSER_ALLOW_SUPERUSER=1 composer update -n --no-ansi'
	ask gem "$(gem --version)" 'gem install thing --clear-sources --source $URL --no-document'
	packaged apt apt 'echo "deb [trusted=yes] $URL stable main" >sources.list
mkdir -p lists/partial cache/archives/partial
apt-get update -o Dir::Etc::sourcelist=$PWD/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$PWD/lists -o Dir::Cache=$PWD/cache -o APT::Sandbox::User=root'
	packaged git git 'GIT_CONFIG_NOSYSTEM=1 git clone $URL/thing.git'
	ask git-lfs "$lfs" "$lfs_project
\$P/bin/git-lfs fetch origin"
	packaged git-lfs git-lfs "$lfs_project
/usr/bin/git-lfs fetch origin"
	packaged skopeo skopeo 'skopeo --insecure-policy inspect --tls-verify=false docker://127.0.0.1:$PORT/thing:1'
	ask crane "$crane" 'crane manifest 127.0.0.1:$PORT/thing:1'
	packaged rclone rclone 'rclone copy --http-url $URL :http:things out'
	packaged restic restic 'RESTIC_PASSWORD=x restic -r rest:$URL/ snapshots'
}
