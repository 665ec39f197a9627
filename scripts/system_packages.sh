#!/bin/sh
# Installs Debian packages that are missing, where it may: `PACKAGE:PROGRAM ...`. Where it may not, it says so and goes
# on: the site then runs with a weaker sandbox and says that too, and tests that need the program report the reason.
# `PACKAGE:PROGRAM:OTHER` means the package and program OTHER on systems that do not offer PACKAGE.
update() {
    [ -n "$updated" ] || apt-get update -qq >/dev/null 2>&1
    updated=yes
}

offered() {
    command -v apt-cache >/dev/null 2>&1 || return 1
    # a new container has no lists of packages
    [ -n "$(apt-cache madison bash 2>/dev/null)" ] || [ "$(id -u)" != 0 ] || update
    [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]
}

for wanted in "$@"; do
    package=${wanted%%:*}
    rest=${wanted#*:}
    program=${rest%%:*}
    command -v "$program" >/dev/null 2>&1 && continue
    if [ "$rest" != "$program" ] && { [ "$(id -u)" != 0 ] || ! offered "$package"; }; then
        package=${rest#*:}
        program=$package
        command -v "$program" >/dev/null 2>&1 && continue
    fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "$program is missing and cannot be installed here: as root, run 'apt-get install $package'" >&2
        continue
    fi
    update
    echo "installing $package" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null 2>&1 ||
        echo "installing $package failed: run 'apt-get install $package' to see why" >&2
done
exit 0
