#!/bin/sh
# Makes the services of a site known to this Debian machine: the account, settings, units and the proxy. Run it as root
# in /opt/kbench, where `make install` has run. It starts nothing and keeps the settings and the proxy file that are
# there; after an upgrade, run it again.
set -eu
cd "$(dirname "$0")/.."

id kbench >/dev/null 2>&1 || useradd --system --user-group --no-create-home --home-dir /var/lib/kbench kbench
install -d -m 0750 -g kbench /etc/kbench
[ -e /etc/kbench/kbench.env ] || install -m 0640 -g kbench deploy/kbench.env.example /etc/kbench/kbench.env
.venv/bin/python -m compileall -q kbench_site benchmarks agents # the services may not write here
install -m 0755 deploy/kbench-manage /usr/local/sbin/kbench-manage
install -m 0644 deploy/systemd/* /etc/systemd/system/
if [ -d /etc/nginx/conf.d ] && ! [ -e /etc/nginx/conf.d/kbench.conf ]; then
    install -m 0644 deploy/nginx.conf /etc/nginx/conf.d/kbench.conf
fi
systemctl daemon-reload
