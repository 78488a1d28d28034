#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the built server against real clients and a browser. What they need is installed into build/e2e/venv.
#   tests/e2e/run.sh [pytest arguments]     all tests, unless the arguments name files of tests/e2e
# Any build will do: INKSTONE_BINARY=build/dev/inkstone tests/e2e/run.sh tests/e2e/test_stress.py looks for leaks and races, too.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=build/e2e
venv=$work/venv
mkdir -p "$work/artefacts"
if [ ! -x "$venv/bin/python" ]; then python3 -m venv "$venv"; fi
if ! cmp -s tests/e2e/requirements.txt "$venv/requirements.txt"; then
  "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 5 -r tests/e2e/requirements.txt
  cp tests/e2e/requirements.txt "$venv/requirements.txt"
fi
export INKSTONE_BINARY=${INKSTONE_BINARY:-$PWD/build/release/inkstone}
export INKSTONE_ARTEFACTS=$PWD/$work/artefacts
tests=(tests/e2e)
for argument in "$@"; do
  if [[ $argument == tests/* ]]; then tests=(); fi
done
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "${tests[@]}" "$@"
