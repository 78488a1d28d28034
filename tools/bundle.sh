#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs a portable build: programs, the shared libraries they need (glibc excepted), one archive.
#   tools/bundle.sh [BUILD_FOLDER]     default build/cuda-portable; writes BUILD_FOLDER/inkstone-bundle.tar.xz
# Unpacked anywhere, the programs run on any x86-64 Linux whose glibc is not older than this machine's.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/cuda-portable}
limit_bytes=$((16 * 1024 * 1024))
stage=$build/bundle
archive=$build/inkstone-bundle.tar.xz

rm -rf "$stage" "$archive"
mkdir -p "$stage/lib"
programs=()
for name in inkstone conformance_test decode_bench gpu_test ops_bench; do
  if [ -x "$build/$name" ]; then programs+=("$build/$name"); fi
done
cp "${programs[@]}" "$stage/"
# glibc's own parts belong to the machine; libstdc++ and libgcc come along for the shared libraries that want them.
ldd "${programs[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux-x86-64)\.so' | xargs -r cp -L -t "$stage/lib"
find "$stage" -type f -exec strip --strip-unneeded {} +
tar -C "$stage" -cf - . | xz -T0 -6 >"$archive"

size=$(stat -c %s "$archive")
echo "$archive: $((size / 1024)) KB, $(cd "$stage" && ls | tr '\n' ' ')"
if [ "$size" -gt "$limit_bytes" ]; then
  echo "bundle: larger than $limit_bytes bytes" >&2
  exit 1
fi
