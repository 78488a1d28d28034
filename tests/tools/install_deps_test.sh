#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/install_deps.sh knows both systems' names, installs only what is missing, and leaves a complete system alone.
# dpkg-query, apt-get, id and sudo are replaced by scripts that record how they were called.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

mkdir "$box/bin"
printf 'ID=debian\nVERSION_ID="12"\n' >"$box/debian"
printf 'ID=ubuntu\nVERSION_ID="24.04"\n' >"$box/ubuntu"
cat >"$box/bin/dpkg-query" <<EOF
#!/bin/sh
for name; do :; done
grep -qx "\$name" "$box/absent" && exit 1
echo installed
EOF
cat >"$box/bin/apt-get" <<EOF
#!/bin/sh
echo "apt-get \$*" >>"$box/calls"
[ "\$DEBIAN_FRONTEND" = noninteractive ] || exit 9
EOF
printf '#!/bin/sh\ncat "%s/uid"\n' "$box" >"$box/bin/id"
printf '#!/bin/sh\necho sudo >>"%s/calls"\nexec "$@"\n' "$box" >"$box/bin/sudo"
chmod +x "$box"/bin/*
install() { PATH="$box/bin:$PATH" INKSTONE_OS_RELEASE="$box/$1" "$root/tools/install_deps.sh" "${@:2}"; }

echo 0 >"$box/uid"
: >"$box/absent"
: >"$box/calls"
install debian >/dev/null
[ ! -s "$box/calls" ] || fail "a complete system was touched: $(cat "$box/calls")"

echo libfmt-dev >"$box/absent"
install debian >/dev/null
grep -q "update" "$box/calls" || fail "no package lists were fetched"
grep -q "install.* libfmt-dev\$" "$box/calls" || fail "not just the missing package: $(cat "$box/calls")"
if grep -q sudo "$box/calls"; then fail "root needs no sudo"; fi

echo 1000 >"$box/uid"
install ubuntu >/dev/null
grep -q sudo "$box/calls" || fail "a user needs sudo"

names() { grep -qx "$1" <<<"$(install "${@:2}" --list)"; }
names libboost1.81-dev debian || fail "Boost of Debian 12"
names libjpeg62-turbo-dev debian || fail "JPEG of Debian 12"
names libboost1.83-dev ubuntu || fail "Boost of Ubuntu 24.04"
names libjpeg-turbo8-dev ubuntu || fail "JPEG of Ubuntu 24.04"
if names chromium debian; then fail "a browser is for --e2e only"; fi
names chromium debian --e2e || fail "--e2e without a browser"
if install debian --surprise 2>/dev/null; then fail "an unknown option was accepted"; fi
echo "install_deps: all cases passed"
