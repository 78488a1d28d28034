#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the server with a stub model, and uvicorn + Starlette beside it under the same load.
#   bench/serve/compare.sh [options of `inkstone bench serve`]
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=build/bench-serve/venv
if [ ! -x "$venv/bin/uvicorn" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "uvicorn[standard]" starlette
fi
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" timeout 120 "$venv/bin/python" bench/serve/peer.py "$port" &
peer=$!
trap 'kill "$peer" 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then break; fi
  sleep 0.1
done
${INKSTONE_BINARY:-build/release/inkstone} bench serve --stub --against "$port" "$@"
