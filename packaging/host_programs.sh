#!/bin/sh
# Installs the programs against which the tools of the source `host`, and several servers behind a load balancer, are tested, where
# they are missing. Nothing is started.
set -eu
programs="bwrap dbus-daemon gdbus systemctl ovs-vswitchd ovsdb-server nft ip useradd unshare apt-get dpkg-deb dpkg-scanpackages nginx"
missing=""
for program in $programs; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
[ -x /usr/libexec/packagekitd ] || missing="$missing packagekitd"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing:$missing; the tests that need them are skipped" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get update
apt-get install --yes --no-install-recommends \
    bubblewrap dbus libglib2.0-bin systemd openvswitch-switch nftables iproute2 passwd util-linux packagekit dpkg-dev nginx-light
