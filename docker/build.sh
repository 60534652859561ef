#!/bin/bash
# Builds the images kbsearch-database and kbsearch-cli. What needs the network or Python happens here, before the builds: build/docker/ gets
# the SQL of the installation and the wheels.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}   # with kbsearch, pip and hatchling
tag=${KBSEARCH_TAG:-latest}
image_python=3.13                    # of docker/cli.Dockerfile's BASE
extras=local,html,remote
input=build/docker

docker version >/dev/null 2>&1 || {
    echo "build.sh: no Docker engine answers; start one (docker version says what is wrong)" >&2
    exit 1
}
docker/base-image.sh 17
docker/base-image.sh python

mkdir -p $input
"$python" -m kbsearch db sql >$input/install.sql.new
mv $input/install.sql.new $input/install.sql
version=$("$python" -c 'from importlib.metadata import version; print(version("kbsearch"))')

# kbsearch's own wheel is apart from those of others, which change seldom and make a layer of their own.
rm -rf $input/kbsearch
"$python" -m hatchling build --target wheel --directory $input/kbsearch 2>/dev/null >&2 ||
    "$python" -m hatchling build --target wheel --directory $input/kbsearch # once more, to say what is wrong
wheel=$(echo $input/kbsearch/*.whl)
architecture=$(docker info --format '{{.Architecture}}') # as in names of wheels
wanted=$(cat pyproject.toml <(echo "$image_python $architecture $extras") | sha256sum)
if [ "$(cat $input/wheels.of 2>/dev/null)" != "$wanted" ]; then
    echo "Downloading wheels …"
    rm -rf $input/wheels $input/wheels.new
    platforms=(--platform "manylinux2014_$architecture" --platform "manylinux2010_$architecture" --platform "manylinux1_$architecture")
    for minor in {5..41}; do # glibc 2.41 is Debian trixie's
        platforms+=(--platform "manylinux_2_${minor}_$architecture")
    done
    "$python" -m pip download --quiet --disable-pip-version-check --only-binary :all: --python-version $image_python "${platforms[@]}" \
        --dest $input/wheels.new "${wheel}[$extras]"
    rm $input/wheels.new/kbsearch-*
    mv $input/wheels.new $input/wheels
    echo "$wanted" >$input/wheels.of
fi

installs=$(sha256sum <$input/install.sql | cut -d ' ' -f 1)

build() {
    local image=kbsearch-$1:$tag file=$2 log before after
    echo "Building $image …"
    log=build/$1.log
    before=$(docker image inspect --format '{{.Id}}' "$image" 2>/dev/null || true)
    # Without a network, to be sure that nothing in it needs one.
    docker build --network none --file "$file" --build-arg VERSION="$version" --label kbsearch.installs="$installs" --tag "$image" . >"$log" 2>&1 ||
        { cat "$log" >&2 && exit 1; }
    after=$(docker image inspect --format '{{.Id}}' "$image")
    [ -z "$before" ] || [ "$before" = "$after" ] || docker image rm "$before" >/dev/null 2>&1 || true # unless a container still uses it
}

build database docker/Dockerfile
build cli docker/cli.Dockerfile
# Of the stages with the wheels the newest stays, as a cache.
docker image ls --quiet --filter dangling=true --filter label=kbsearch.stage | tail -n +2 | xargs -r docker image rm >/dev/null
docker image ls --filter 'reference=kbsearch-*'
