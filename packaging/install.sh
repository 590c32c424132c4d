#!/bin/sh
# Installs Toolcaddie into a Debian system: packages, the user `toolcaddie`, and the folder /data for all that it stores.
# The Dockerfile runs it, and `make image-test` runs it in a clean Debian root.
#
#     sh packaging/install.sh FOLDER      FOLDER: a checkout of Toolcaddie
set -eu
checkout=$1

export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install --yes --no-install-recommends bubblewrap ca-certificates python3 python3-venv
rm -rf /var/lib/apt/lists/*

useradd --system --uid 10001 --user-group --home-dir /data --no-create-home --shell /usr/sbin/nologin toolcaddie
install --directory --owner=toolcaddie --group=toolcaddie --mode=0750 /data

python3 -m venv /opt/toolcaddie
/opt/toolcaddie/bin/pip install --no-cache-dir --constraint "$checkout/constraints.txt" "$checkout[bots,postgresql,telemetry]"
ln --symbolic /opt/toolcaddie/bin/toolcaddie /usr/local/bin/toolcaddie
