#!/usr/bin/env bash
# Installs the Debian packages of the named groups of tools/packages.txt that are missing; silent when none is.
# usage: install_packages.sh GROUP...
set -euo pipefail
list=$(dirname "$0")/packages.txt

wanted=()
for group in "$@"; do
  wanted+=($(awk -v g="$group" '$1 == g {print $2}' "$list"))
done

if ! command -v dpkg-query >/dev/null; then
  echo "This is not Debian, so nothing is installed. The build needs what these packages hold: ${wanted[*]}" >&2
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then missing+=("$package"); fi
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Missing packages, and neither root nor sudo to install them. As root: apt-get install ${missing[*]}" >&2
    exit 2
  fi
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} Debian packages: ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get -q update &&
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends "${missing[@]}"; } \
  </dev/null >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  exit 1
fi
