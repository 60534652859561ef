#!/bin/sh
# Entry point of kbsearch's image: says in one line what would not work, then leaves everything to the base image's entry point.
set -eu

# As process 1 a shell is stopped by no signal that it does not handle.
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    echo "kbsearch: $*" >&2
    exit 1
}

scripts=/docker-entrypoint-initdb.d

# While the image is built: installs kbsearch in a cluster of its own.
try_install() {
    directory=$(mktemp -d)
    trap 'pg_ctl -D "$directory/data" -m immediate stop >/dev/null 2>&1; rm -rf "$directory"' EXIT
    { initdb -D "$directory/data" && pg_ctl -D "$directory/data" -w -l "$directory/log" -o "-c listen_addresses= -k $directory" start; } >"$directory/steps" 2>&1 ||
        { cat "$directory/steps" "$directory/log" >&2 && fail "the base image's PostgreSQL does not start"; }
    psql -X -q -v ON_ERROR_STOP=1 -h "$directory" -d postgres -f "$scripts/10-kbsearch.sql" >"$directory/steps" 2>&1 ||
        fail "the base image won't do: $(sed -n 's/^.*ERROR: *//p' "$directory/steps"). $(sed -n 's/^HINT: *//p' "$directory/steps")"
}

# Before a first start: everything that would end it half way.
check_first_start() {
    [ -e "$scripts/10-kbsearch.sql" ] && [ -e "$scripts/zz-complete.sh" ] ||
        fail "kbsearch's own files are missing in $scripts: mount files of yours into it one by one, not a folder over it"
    mkdir -p "$PGDATA" 2>/dev/null && [ -w "$PGDATA" ] ||
        fail "$(id -un) (user id $(id -u)) may not write to $PGDATA: give the folder that is mounted there to this user"
    [ -z "$(find "$PGDATA" -mindepth 1 -maxdepth 1 ! -name lost+found | head -n 1)" ] ||
        fail "$PGDATA holds files, but no database: mount an empty folder there, or set PGDATA to a folder below it"
    if [ -n "${POSTGRES_PASSWORD-}" ]; then
        [ -z "${POSTGRES_PASSWORD_FILE-}" ] || fail "both POSTGRES_PASSWORD and POSTGRES_PASSWORD_FILE are set: give one of them"
    elif [ -n "${POSTGRES_PASSWORD_FILE-}" ]; then
        [ -r "$POSTGRES_PASSWORD_FILE" ] || fail "$(id -un) (user id $(id -u)) cannot read POSTGRES_PASSWORD_FILE: $POSTGRES_PASSWORD_FILE"
        [ -n "$(cat "$POSTGRES_PASSWORD_FILE")" ] || fail "POSTGRES_PASSWORD_FILE is empty: $POSTGRES_PASSWORD_FILE"
    elif [ "${POSTGRES_HOST_AUTH_METHOD-}" != trust ]; then
        fail "a new database needs a password: set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE"
    fi
}

# Before every other start.
check_data() {
    server=$(postgres --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
    data=$(cat "$PGDATA/PG_VERSION")
    [ "$data" = "$server" ] ||
        fail "the data in $PGDATA are of PostgreSQL $data, and this image is of PostgreSQL $server: dump them with an image of PostgreSQL $data and restore the dump into a new volume"
    if grep -qs '^# kbsearch: the first start is not complete$' "$PGDATA/postgresql.conf"; then
        fail "the first start on $PGDATA was cut short, so there is no complete database in it: remove the volume (docker volume rm) and start again"
    fi
}

case ${1-} in
try-install) try_install && exit ;;
postgres | -*)
    case " $* " in *' --help '* | *' --version '* | *' -V '* | *' -? '*) exec docker-entrypoint.sh "$@" ;; esac
    if [ -s "$PGDATA/PG_VERSION" ]; then check_data; else check_first_start; fi
    ;;
esac
exec docker-entrypoint.sh "$@"
