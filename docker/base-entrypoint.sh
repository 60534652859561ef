#!/bin/bash
# Entry point of the base images that docker/base-image.sh makes: the conventional interface of PostgreSQL images, so that kbsearch's image can be built
# on either.
#
# Without a database in PGDATA it makes one: superuser POSTGRES_USER (postgres) with POSTGRES_PASSWORD, database POSTGRES_DB (named as the user),
# initdb's arguments POSTGRES_INITDB_ARGS and POSTGRES_INITDB_WALDIR, connections from elsewhere by POSTGRES_HOST_AUTH_METHOD (scram-sha-256; md5 before version 14); then it
# runs /docker-entrypoint-initdb.d/* by name: *.sql, *.sql.gz, *.sh (run if executable, else read). Of user, password, database and arguments there are
# variants NAME_FILE that name a file to read them from.
set -euo pipefail

complain() {
    echo "docker-entrypoint.sh: $*" >&2
    exit 1
}

# Sets a variable from its own value, from the file that NAME_FILE names, or to a default; unsets NAME_FILE.
from_file() {
    local name=$1 file_name=$1_FILE default=${2-}
    if [ -n "${!name-}" ] && [ -n "${!file_name-}" ]; then
        complain "both $name and $file_name are set: give one of them"
    elif [ -n "${!file_name-}" ]; then
        [ -r "${!file_name}" ] || complain "$file_name: cannot read ${!file_name} as $(id -un 2>/dev/null || id -u)"
        printf -v "$name" %s "$(<"${!file_name}")"
    else
        printf -v "$name" %s "${!name:-$default}"
    fi
    export "${name?}"
    unset "$file_name"
}

# On the server of the initialisation, which listens on its socket only.
query() {
    PGHOST='' PGHOSTADDR='' psql --no-psqlrc --no-password --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" "$@"
}

# Scripts that are read (not run) may use this name for it, as with other images.
docker_process_sql() {
    query --dbname "$POSTGRES_DB" "$@"
}

initialise() {
    local arguments=() file
    from_file POSTGRES_USER postgres
    from_file POSTGRES_PASSWORD
    from_file POSTGRES_DB "$POSTGRES_USER"
    from_file POSTGRES_INITDB_ARGS
    if [ -z "$POSTGRES_PASSWORD" ] && [ "${POSTGRES_HOST_AUTH_METHOD-}" != trust ]; then
        complain "a new database needs a password: set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE"
    fi

    eval "arguments=($POSTGRES_INITDB_ARGS)" # quoted as for a shell
    [ -z "${POSTGRES_INITDB_WALDIR-}" ] || arguments+=(--waldir "$POSTGRES_INITDB_WALDIR")
    arguments+=(--username "$POSTGRES_USER")
    if [ -n "$POSTGRES_PASSWORD" ]; then
        initdb --pwfile <(printf '%s\n' "$POSTGRES_PASSWORD") "${arguments[@]}" >/dev/null
    else
        initdb "${arguments[@]}" >/dev/null
    fi
    : "${POSTGRES_HOST_AUTH_METHOD:=$(postgres -C password_encryption)}" # as the password is stored
    printf '\nhost all all all %s\n' "$POSTGRES_HOST_AUTH_METHOD" >>"$PGDATA/pg_hba.conf"

    export PGPASSWORD=$POSTGRES_PASSWORD
    trap 'pg_ctl --mode immediate --wait stop >/dev/null 2>&1' EXIT
    pg_ctl --wait --silent --options "-c listen_addresses='' -p ${PGPORT:-5432}" start >/dev/null
    [ "$POSTGRES_DB" = postgres ] ||
        query --dbname postgres --set name="$POSTGRES_DB" <<<'CREATE DATABASE :"name"' # a here document: variables are not replaced in --command
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
        *.sql) docker_process_sql --file "$file" ;;
        *.sql.gz) gunzip --stdout "$file" | docker_process_sql ;;
        *.sh)
            # shellcheck source=/dev/null
            if [ -x "$file" ]; then "$file"; else . "$file"; fi
            ;;
        *'/*') ;;
        *) echo "docker-entrypoint.sh: $file is none of *.sql, *.sql.gz, *.sh: left out" >&2 ;;
        esac
    done
    trap - EXIT
    pg_ctl --mode fast --wait --silent stop >/dev/null
    unset PGPASSWORD
}

case ${1-} in -*) set -- postgres "$@" ;; esac
case " $* " in *' --help '* | *' --version '* | *' -V '* | *' -? '*) exec "$@" ;; esac # asks about the program and needs no database
if [ "${1-}" = postgres ]; then
    if [ "$(id -u)" = 0 ]; then # the server refuses to run as root
        mkdir -p "$PGDATA"
        find "$PGDATA" \! -user postgres -exec chown postgres {} +
        exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
    fi
    mkdir -p "$PGDATA"
    chmod 00700 "$PGDATA" 2>/dev/null || true
    if [ ! -s "$PGDATA/PG_VERSION" ]; then
        # As process 1 a shell is stopped by no signal that it does not handle.
        trap 'exit 130' INT
        trap 'exit 143' TERM
        initialise
        trap - INT TERM
    fi
fi
exec "$@"
