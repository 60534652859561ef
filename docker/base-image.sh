#!/bin/bash
# A base image from Debian's packages, for where no registry of images can be reached. It gets the name of the public image that it stands in for,
# so all that is built on it is the same.
set -euo pipefail

usage() {
    cat <<'END'
Usage: docker/base-image.sh [--packages] [--tag NAME] [15 | 17 | 18 | python | 13-bare | 15-bare]

Makes sure that a base image is there: one that is there already is left alone, else the public image is pulled, else an image of the same name is
made from Debian's packages, which needs root and debootstrap.

  17 (default), 18   pgvector/pgvector:pg17, pgvector/pgvector:pg18
  15                 pgvector/pgvector:pg15; from packages, its pgvector is compiled from the source of Debian trixie's
  13-bare, 15-bare   postgres:13, postgres:15: too old a server, and a server without pgvector, for tests
  python             python:3.13-slim-trixie
  --packages         do not try the registry
  --tag NAME         make an image of another name, from packages

Packages that were downloaded are kept in build/base/, so a run that was cut short goes on where it was. DEBIAN_MIRROR
(http://deb.debian.org/debian) and DEBIAN_SECURITY_MIRROR (http://deb.debian.org/debian-security) name other mirrors; http_proxy is obeyed.
END
}

fail() {
    echo "base-image.sh: $*" >&2
    exit 1
}

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
registry=yes
kind=17
name=
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit ;;
    --packages) registry=no ;;
    --tag) name=${2:?is missing} registry=no && shift ;;
    13-bare | 15-bare | 15 | 17 | 18 | python) kind=$1 ;;
    *) usage >&2 && exit 2 ;;
    esac
    shift
done
case $kind in
13-bare) suite=bullseye tag=postgres:13 ;;
15-bare) suite=bookworm tag=postgres:15 ;;
15) suite=bookworm tag=pgvector/pgvector:pg15 ;;
17) suite=trixie tag=pgvector/pgvector:pg17 ;;
18) suite=forky tag=pgvector/pgvector:pg18 ;;
python) suite=trixie tag=python:3.13-slim-trixie ;;
esac
tag=${name:-$tag}
major=${kind%-bare}

docker version >/dev/null 2>&1 || fail "no Docker engine answers; start one (docker version says what is wrong)"
if docker image inspect "$tag" >/dev/null 2>&1; then
    echo "$tag is there."
    exit
fi
if [ $registry = yes ]; then
    echo "$tag: pulling …"
    if docker pull --quiet "$tag" 2>/dev/null; then
        exit
    fi
    echo "$tag cannot be pulled; it is made from the packages of Debian $suite."
fi
[ "$(id -u)" = 0 ] || fail "making a base image from packages needs root: sudo $0 $kind"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"

mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
cache=$repository/build/base/$suite
mkdir -p "$cache"
root=$(mktemp -d "${TMPDIR:-/var/tmp}/kbsearch-base.XXXXXXXX")
chmod 755 "$root"
log=$root.log

clean_up() {
    local status=$? mounted
    trap '' INT TERM HUP
    # Nothing may be removed through a mount; debootstrap leaves /proc mounted when it is interrupted.
    while read -r mounted; do
        umount "$mounted" || umount --lazy "$mounted"
    done < <(awk -v root="$root/" 'index($2, root) == 1 { print $2 }' /proc/mounts | sort --reverse)
    rm -rf --one-file-system "$root"
    rm -f "$log"
    # Under sudo the cache belongs to who owns the checkout.
    if [ -d "$repository/build" ]; then
        chown --recursive --reference="$repository" "$repository/build/base" && chown --reference="$repository" "$repository/build"
    fi
    exit $status
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Runs a step. On a terminal the last line of its output is shown as it goes; the end of its output if the step fails.
step() {
    local title=$1 status
    shift
    echo "$title …"
    set +e # a function in a condition would go on after an error
    if [ -t 1 ]; then
        (set -e && "$@") 2>&1 | tee "$log" | awk '{ printf "\r\033[K  %.100s", $0; fflush() } END { printf "\r\033[K" }'
        status=${PIPESTATUS[0]}
    else
        (set -e && "$@") >"$log" 2>&1
        status=$?
    fi
    set -e
    [ "$status" = 0 ] || { tail -n 20 "$log" >&2 && fail "$title: failed with exit code $status"; }
}

in_root() {
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"
}

# Downloads first and keeps what it downloaded; the cache is only added to when a package is complete.
install_packages() {
    cp --no-clobber "$cache"/*.deb "$root/var/cache/apt/archives/" 2>/dev/null || true
    in_root apt-get install --yes --no-install-recommends --download-only "$@"
    cp --no-clobber "$root"/var/cache/apt/archives/*.deb "$cache/"
    in_root apt-get install --yes --no-install-recommends "$@"
}

prepare() {
    {
        case $suite in
        # The only suite with an end of validity, which a mirror that is a snapshot has passed; this image is for tests.
        forky) echo "deb [check-valid-until=no] $mirror $suite main" ;;
        *) echo "deb $mirror $suite main" ;;
        esac
        case $suite in
        forky) ;;
        bullseye) echo "deb $security $suite-security main" ;;
        *) printf 'deb %s\n' "$mirror $suite-updates main" "$security $suite-security main" ;;
        esac
    } >"$root/etc/apt/sources.list"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # packages start no services
    chmod +x "$root/usr/sbin/policy-rc.d"
    mountpoint --quiet "$root/proc" || mount -t proc proc "$root/proc" # packages' scripts ask it
    in_root apt-get update
    in_root apt-get upgrade --yes
}

install_postgres() {
    local packages=("postgresql-$major")
    # The ids of the public images, so that volumes can change hands.
    in_root groupadd --system --gid 999 postgres
    in_root useradd --system --gid postgres --uid 999 --home-dir /var/lib/postgresql --shell /bin/bash postgres
    mkdir -p "$root/etc/postgresql-common"
    echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
    case $kind in 17 | 18) packages+=("postgresql-$major-pgvector") ;; esac
    install_packages "${packages[@]}"
    [ "$kind" != 15 ] || compile_pgvector
    echo "listen_addresses = '*'" >>"$root/usr/share/postgresql/$major/postgresql.conf.sample"
    install --mode=755 "$repository/docker/base-entrypoint.sh" "$root/usr/local/bin/docker-entrypoint.sh"
    mkdir "$root/docker-entrypoint-initdb.d"
    in_root install --directory --owner=postgres --group=postgres --mode=1777 /var/lib/postgresql/data /var/run/postgresql
}

list_packages() {
    # shellcheck disable=SC2016  # dpkg-query's own variable
    in_root dpkg-query --show --showformat '${binary:Package}\n' | LC_ALL=C sort
}

# As Debian's own packages of it are made, but for the processor's own instructions. The compiler does not stay.
compile_pgvector() {
    local before added
    before=$(list_packages)
    install_packages build-essential "postgresql-server-dev-$major"
    echo "deb-src $mirror trixie main" >"$root/etc/apt/sources.list.d/source.list"
    in_root apt-get update
    cp --no-clobber "$cache"/pgvector_* "$root/tmp/" 2>/dev/null || true
    in_root sh -c 'cd /tmp && apt-get source --download-only pgvector && mkdir pgvector && tar -x -f pgvector_*.orig.tar.gz --strip-components=1 -C pgvector'
    cp --no-clobber "$root"/tmp/pgvector_* "$cache/"
    in_root make --directory=/tmp/pgvector OPTFLAGS= with_llvm=no install
    # By name: what others merely recommend would not count as unneeded.
    mapfile -t added < <(LC_ALL=C comm -13 <(echo "$before") <(list_packages))
    in_root apt-get purge --yes "${added[@]}"
    rm "$root/etc/apt/sources.list.d/source.list"
}

install_python() {
    install_packages python3 python3-venv ca-certificates
    ln -s python3 "$root/usr/bin/python"
}

trim() {
    in_root apt-get clean
    umount "$root/proc"
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/{apt,debconf,ldconfig}/* "$root"/var/log/* "$root"/tmp/* "$root"/usr/share/{doc,info,locale,man}/*
    rm -f "$root/etc/resolv.conf" "$root/etc/hostname" "$root/usr/sbin/policy-rc.d" "$root"/var/lib/dpkg/*-old
}

import_image() {
    tar --directory="$root" --create --one-file-system --numeric-owner --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' . |
        docker import --message "from the packages of Debian $suite" "${changes[@]}" - "$tag"
}

changes=(--change 'LABEL org.opencontainers.image.description="Made from the packages of Debian '"$suite"' by docker/base-image.sh of kbsearch"')
script=/usr/share/debootstrap/scripts/$suite
[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # a suite younger than this debootstrap
step "1/5 minimal system" debootstrap --variant=minbase --cache-dir="$cache" "$suite" "$root" "$mirror" "$script"
step "2/5 security updates" prepare
if [ "$kind" = python ]; then
    step "3/5 Python" install_python
    changes+=(--change 'ENV LANG=C.UTF-8' --change 'CMD ["python3"]')
else
    step "3/5 PostgreSQL $major" install_postgres
    changes+=(
        --change "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/$major/bin"
        --change "ENV LANG=C.UTF-8 PG_MAJOR=$major PGDATA=/var/lib/postgresql/data"
        --change 'VOLUME /var/lib/postgresql/data'
        --change 'EXPOSE 5432'
        --change 'ENTRYPOINT ["docker-entrypoint.sh"]'
        --change 'CMD ["postgres"]'
    )
fi
step "4/5 trimming" trim
step "5/5 import into Docker" import_image
echo "$tag is made."
