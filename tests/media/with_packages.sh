#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a Python script in an environment with packages that the system lacks:
#   with_packages.sh FOLDER "pillow numpy" SCRIPT ARGUMENT...
# The environment is made in FOLDER once. Exit code 77, which ctest reports as skipped, when it cannot be made.
set -euo pipefail
folder=$1
packages=$2
shift 2

skip() { echo "skipped: $1"; exit 77; }

if [ ! -e "$folder/complete" ]; then
  python3 -m venv --system-site-packages "$folder" || skip "python3 has no venv module (Debian: python3-venv)"
  # shellcheck disable=SC2086
  "$folder/bin/pip" install -q --disable-pip-version-check $packages || skip "cannot install $packages; offline?"
  touch "$folder/complete"
fi
exec "$folder/bin/python" "$@"
