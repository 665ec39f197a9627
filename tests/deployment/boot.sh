#!/bin/sh
# Boots a throw-away copy of this machine: its files under a layer in memory, networks and processes of its own, and a
# real systemd as process 1. Run inside a mount namespace. `boot.sh NAME OPTION...`: options of systemd-nspawn.
set -eu
name=$1
shift
mount --make-rprivate /
layer=$(mktemp -d)
mount -t tmpfs tmpfs "$layer"
mkdir "$layer/upper" "$layer/work" "$layer/top"
mount -t overlay overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" "$layer/top"
for unit in avahi-daemon.service avahi-daemon.socket getty.target apt-daily.timer apt-daily-upgrade.timer man-db.timer; do
    ln -sf /dev/null "$layer/top/etc/systemd/system/$unit" # of no use here
done
: >"$layer/top/etc/machine-id"
rm -f "$layer/top/etc/systemd/system/multi-user.target.wants/postgresql.service" # its data lie in the layer below
# without a systemd outside nobody keeps units
[ -d /run/systemd/system ] || set -- --keep-unit "$@"
exec systemd-nspawn --directory="$layer/top" --machine="$name" --private-network --register=no --boot --console=pipe "$@"
