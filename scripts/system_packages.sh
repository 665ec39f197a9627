#!/bin/sh
# Installs Debian packages that are missing, where it may: `PACKAGE:PROGRAM ...`. Where it may not, it says so and goes
# on: the site then runs with a weaker sandbox and says that too, and tests that need the program report the reason.
for pair in "$@"; do
    package=${pair%%:*}
    program=${pair##*:}
    command -v "$program" >/dev/null 2>&1 && continue
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "$program is missing and cannot be installed here: as root, run 'apt-get install $package'" >&2
        continue
    fi
    [ -n "$updated" ] || apt-get update -qq >/dev/null 2>&1
    updated=yes
    echo "installing $package" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null 2>&1 ||
        echo "installing $package failed: run 'apt-get install $package' to see why" >&2
done
exit 0
