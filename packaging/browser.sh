#!/bin/sh
# Installs the browser in which the console is tested, if it is missing and this can be done; otherwise says what to do.
set -eu
if command -v chromium >/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update && apt-get install --yes --no-install-recommends chromium fonts-dejavu-core && exit 0
fi
echo "chromium is missing, so tests of the console in a browser are skipped; install it, for example: sudo apt-get install chromium" >&2
exit 1
