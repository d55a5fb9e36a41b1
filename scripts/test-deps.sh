#!/usr/bin/env bash
# Installs the programs that some tests start: Debian's Slurm and munge, of which the tests run a cluster of their own, with
# slurmdbd and MariaDB for its accounts.
# Without them, without root or without apt these tests are skipped and counted: that is no error here.
set -euo pipefail
packages=(slurmctld slurmd slurm-client munge slurmdbd slurm-wlm-mysql-plugin mariadb-server-core)

# Daemons are in a folder that not every user's search path has.
PATH=$PATH:/usr/sbin:/sbin
missing=
for program in slurmctld slurmd squeue munged slurmdbd mariadbd; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed:$missing; tests on a real Slurm are skipped (as root: apt-get install ${packages[*]})" >&2
    exit 0
fi

# The services of the packages are not wanted: the tests start daemons of their own, on ports of their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
install=(apt-get install -y -qq --no-install-recommends "${packages[@]}")
if ! { "${install[@]}" || { apt-get update -qq && "${install[@]}"; }; } >&2; then
    echo "could not install ${packages[*]}; tests on a real Slurm are skipped" >&2
fi
