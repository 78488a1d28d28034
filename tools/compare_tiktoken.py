#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Encodes the same megabyte of prose with our tokenizer and with PyPI's tiktoken, in one run, and compares ids and time.

    python3 -m pip install tiktoken
    cmake --build --preset release --target tokenize_bench
    python3 tools/compare_tiktoken.py [--build build/release]

Exit code 0: equal ids, and ours no slower. 1: not so. 77: tiktoken is not installed, nothing was compared.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANKS = ROOT / "tests/data/tokenizer/o200k_base.tiktoken"
PROSE_BYTES = 1 << 20
ROUNDS = 5

# The stock pattern, as tiktoken spells it.
WORD_TAIL = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + WORD_TAIL,
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + WORD_TAIL,
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


def prose():
    """English prose from the repository, repeated to a megabyte."""
    sources = [ROOT / "LICENSE", ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    return (text * (PROSE_BYTES // len(text) + 1))[:PROSE_BYTES]


def time_theirs(tiktoken, text):
    from tiktoken.load import load_tiktoken_bpe

    begin = time.perf_counter()
    encoding = tiktoken.Encoding(
        "o200k_local", pat_str=PATTERN, mergeable_ranks=load_tiktoken_bpe(str(RANKS)), special_tokens={}
    )
    load_ms = (time.perf_counter() - begin) * 1e3
    best, ids = float("inf"), []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        ids = encoding.encode_ordinary(text)
        best = min(best, time.perf_counter() - begin)
    return {"load_ms": load_ms, "encode_ms": best * 1e3}, ids


def time_ours(bench, text):
    with tempfile.TemporaryDirectory() as folder:
        text_file, ids_file = pathlib.Path(folder) / "text", pathlib.Path(folder) / "ids"
        text_file.write_text(text, encoding="utf-8", newline="")
        command = [bench, RANKS, text_file, str(ROUNDS), ids_file]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(result.stdout), [int(line) for line in ids_file.read_text().split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options = parser.parse_args()
    try:
        import tiktoken
    except ImportError:
        print("compare_tiktoken: tiktoken is not installed, nothing was compared")
        return 77
    text = prose()
    theirs, their_ids = time_theirs(tiktoken, text)
    ours, our_ids = time_ours(options.build / "bench/text/tokenize_bench", text)
    for name, times in (("tiktoken", theirs), ("inkstone", ours)):
        print(f"{name}: load {times['load_ms']:.0f} ms, encode {times['encode_ms']:.1f} ms")
    if our_ids != their_ids:
        where = next((i for i, (a, b) in enumerate(zip(our_ids, their_ids)) if a != b), min(len(our_ids), len(their_ids)))
        print(f"compare_tiktoken: the ids differ at index {where}")
        return 1
    print(f"{len(our_ids)} equal ids; ours takes {ours['encode_ms'] / theirs['encode_ms']:.2f} of tiktoken's time")
    return 0 if ours["encode_ms"] <= theirs["encode_ms"] else 1


if __name__ == "__main__":
    sys.exit(main())
