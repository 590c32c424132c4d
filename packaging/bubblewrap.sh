#!/bin/sh
# Installs bubblewrap, which builds the wall of the sandbox, if it is missing and this can be done; otherwise says what to do.
set -eu
if command -v bwrap >/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update && apt-get install --yes --no-install-recommends bubblewrap && exit 0
fi
echo "bubblewrap is missing, so tests of the sandbox are skipped; install it, for example: sudo apt-get install bubblewrap" >&2
exit 1
