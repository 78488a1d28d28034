#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the links of the Markdown documents to files, lines and headings of the project resolve.

  tools/check_links.py [ROOT] [DOCUMENT...]     default: every *.md outside the data folders
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from source_tree import project_files  # noqa: E402

DATA = ("models/", "tests/data/")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^\s*(```|~~~)")


def links(text):
    """(line number, target) of each inline link outside code."""
    in_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            for match in LINK.finditer(re.sub(r"`[^`]*`(?!\])", "", line)):
                yield number, match.group(1)


def headings(text):
    """The anchors of a document's headings, spelled as code hosts spell them."""
    in_code = False
    for line in text.split("\n"):
        if FENCE.match(line):
            in_code = not in_code
        match = re.match(r"#+\s+(.*)", line)
        if match and not in_code:
            kept = re.sub(r"[^\w\- ]", "", match.group(1).strip().lower())
            yield kept.replace(" ", "-")


def anchor_error(path, anchor):
    with open(path, encoding="utf-8") as handle:
        text = handle.read()
    if path.endswith(".md"):
        return None if anchor in set(headings(text)) else f"has no heading \"{anchor}\""
    match = re.fullmatch(r"L(\d+)(-L\d+)?", anchor)
    if not match:
        return f"cannot be pointed into with \"{anchor}\""
    return None if int(match.group(1)) <= text.count("\n") + 1 else f"is shorter than {anchor}"


def target_error(root, document, target):
    if re.match(r"[a-z][a-z0-9+.\-]*:", target):
        return None
    name, _, anchor = target.partition("#")
    path = os.path.join(root, os.path.dirname(document), name) if name else os.path.join(root, document)
    if not os.path.exists(path):
        return "does not exist"
    if os.path.relpath(os.path.realpath(path), os.path.realpath(root)).startswith(".."):
        return "lies outside the project"
    return anchor_error(path, anchor) if anchor and os.path.isfile(path) else None


def check(root, documents=None):
    if not documents:
        documents = [p for p in project_files(root) if p.endswith(".md") and not p.startswith(DATA)]
    errors = []
    for document in documents:
        with open(os.path.join(root, document), encoding="utf-8") as handle:
            text = handle.read()
        for number, target in links(text):
            error = target_error(root, document, target)
            if error:
                errors.append(f"{document}:{number}: link: {target} {error}")
    return errors


def main():
    default = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    errors = check(sys.argv[1] if len(sys.argv) > 1 else default, sys.argv[2:])
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
