#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that build and test Inkstone on Debian 12 and Ubuntu 24.04.
# Does nothing, and asks nothing of the network, when all of them are there.
#   tools/install_deps.sh          what `make run` and `make test` need
#   tools/install_deps.sh --e2e    also what `make test-e2e` needs
#   tools/install_deps.sh --list   prints the packages for this system and installs nothing
set -euo pipefail

want_e2e=0
list_only=0
for arg in "$@"; do
  case "$arg" in
    --e2e) want_e2e=1 ;;
    --list) list_only=1 ;;
    *) echo "usage: tools/install_deps.sh [--e2e] [--list]" >&2; exit 2 ;;
  esac
done

os_release=${INKSTONE_OS_RELEASE:-/etc/os-release}
[ -r "$os_release" ] || { echo "install_deps: $os_release is missing; see docs for the package list" >&2; exit 1; }
# shellcheck disable=SC1090
system=$(. "$os_release"; echo "${ID:-unknown} ${VERSION_ID:-unknown}")

packages=(
  g++ cmake ninja-build ccache make git curl python3 pkg-config ca-certificates
  clang-format-14 clang-tidy-14
  libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev
  libpcre2-dev libpng-dev libwebp-dev libgif-dev libexif-dev libsndfile1-dev libvorbis-dev libkissfft-dev
  libcurl4-openssl-dev libssl-dev
  prometheus-cpp-dev libxxhash-dev libzstd-dev libhwy-dev libexpected-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)
e2e_packages=(python3-venv)

# The names that differ.
case "$system" in
  "debian 12")
    packages+=(libboost1.81-dev libjpeg62-turbo-dev)
    e2e_packages+=(chromium)
    ;;
  "ubuntu 24.04")
    # Chromium is a snap there and does not run in a container: the browser test says so and is skipped.
    packages+=(libboost1.83-dev libjpeg-turbo8-dev)
    ;;
  *)
    echo "install_deps: written for Debian 12 and Ubuntu 24.04, this is '$system'; trying unversioned names" >&2
    packages+=(libboost-dev libjpeg-dev)
    ;;
esac
if [ "$want_e2e" = 1 ]; then packages+=("${e2e_packages[@]}"); fi

if [ "$list_only" = 1 ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi
command -v dpkg-query >/dev/null || { echo "install_deps: this system has no dpkg" >&2; exit 1; }

is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | sort -u)" = installed ]
}

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ "${#missing[@]}" = 0 ]; then
  echo "install_deps: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "install_deps: run as root or install sudo; missing: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" </dev/null
}
retry() {
  local attempt
  for attempt in 1 2 3; do
    "$@" && return 0
    echo "install_deps: attempt $attempt of 3 failed: $*" >&2
    sleep $((attempt * 5))
  done
  return 1
}

echo "install_deps: installing ${missing[*]}"
retry apt update -q
retry apt install -y -q --no-install-recommends "${missing[@]}"
