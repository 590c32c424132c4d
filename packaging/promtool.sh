#!/bin/sh
# Prints the path of promtool, which checks rules of Prometheus. If it is missing, it is taken from Debian's package into the folder
# that is named, without installing anything; otherwise says what to do.
set -eu
folder="${1:?name the folder for promtool}"
if command -v promtool; then
    exit 0
fi
if [ ! -x "$folder/usr/bin/promtool" ]; then
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        echo "promtool is missing, so the alerts are not checked; install it, for example: sudo apt-get install prometheus" >&2
        exit 1
    fi
    mkdir -p "$folder"
    (cd "$folder" && apt-get download prometheus >&2 && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb)
fi
echo "$folder/usr/bin/promtool"
