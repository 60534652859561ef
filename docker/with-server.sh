#!/bin/bash
# Runs a command while a server of its own is up in a container: with KBSEARCH_TEST_DSN set to its superuser's connection string.
# Usage: docker/with-server.sh IMAGE COMMAND [ARGUMENT…]
set -euo pipefail
[ $# -ge 2 ] || {
    echo "Usage: docker/with-server.sh IMAGE COMMAND [ARGUMENT…]" >&2
    exit 2
}
image=$1
shift

fail() {
    echo "with-server.sh: $*" >&2
    exit 1
}

docker version >/dev/null 2>&1 || fail "no Docker engine answers; start one (docker version says what is wrong)"
docker image inspect "$image" >/dev/null 2>&1 || fail "there is no image $image; make image builds kbsearch's, docker/base-image.sh the others"
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
name=kbsearch-with-server-$$
trap 'docker rm --force --volumes $name >/dev/null 2>&1' EXIT
# The command gets the signals of the terminal, too, and ends by them; then the container is removed.
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# The data live as long as the command, so nothing is waited for to reach the disk.
container=$(docker run --detach --name $name --label kbsearch.test=$$ --shm-size 256m --publish 127.0.0.1::5432 --env POSTGRES_PASSWORD="$password" "$image" \
    postgres -c fsync=off -c full_page_writes=off -c synchronous_commit=off -c max_wal_size=2GB)
for ((tries = 0; ; tries++)); do
    # By TCP: the server of the initialisation listens on its socket only.
    docker exec "$container" pg_isready --quiet --host 127.0.0.1 2>/dev/null && break
    if [ "$(docker inspect --format '{{.State.Running}}' "$container")" != true ]; then
        docker logs "$container" >&2
        fail "the server of $image did not start"
    fi
    [ $tries -lt 300 ] || fail "the server of $image was not ready after 300 tries"
    sleep 0.5
done
port=$(docker port "$container" 5432 | head -n 1)
export KBSEARCH_TEST_DSN="postgresql://postgres:$password@127.0.0.1:${port##*:}/postgres"
"$@"
