#!/bin/sh
# Entry point of the image with the command kbsearch: PGPASSWORD may come from a file.
set -eu
if [ -n "${PGPASSWORD_FILE-}" ]; then
    [ -r "$PGPASSWORD_FILE" ] || {
        echo "kbsearch: $(id -un) (user id $(id -u)) cannot read PGPASSWORD_FILE: $PGPASSWORD_FILE" >&2
        exit 1
    }
    PGPASSWORD=$(cat "$PGPASSWORD_FILE")
    export PGPASSWORD
    unset PGPASSWORD_FILE
fi
exec kbsearch "$@"
