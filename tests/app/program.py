# SPDX-License-Identifier: Apache-2.0
"""Runs the program under test and reads what it leaves behind."""
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
MODEL = os.path.join(ROOT, "models", "inkling-mini")
GOLDEN = os.path.join(ROOT, "tests", "data", "golden")


class ProgramTest(unittest.TestCase):
    """Every test has an empty folder `self.folder`; `program` is set by the test's main()."""
    program = ""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="inkstone-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, contents):
        with open(self.path(name), "wb") as handle:
            handle.write(contents if isinstance(contents, bytes) else contents.encode())
        return self.path(name)

    def run_words(self, *words, stdin=b"", program=None):
        stdin = stdin if isinstance(stdin, bytes) else stdin.encode()
        return subprocess.run([program or self.program, *words], input=stdin, capture_output=True, timeout=120,
                              cwd=self.folder, check=False)

    def output(self, *words, stdin=b""):
        """Standard output of a run that succeeds."""
        done = self.run_words(*words, stdin=stdin)
        self.assertEqual(done.returncode, 0, (words, done.stderr.decode(errors="replace")))
        return done.stdout.decode()

    def document(self, *words, stdin=b""):
        """The JSON document of a run that succeeds: one, on one line, and nothing else."""
        text = self.output(*words, "--json", stdin=stdin)
        self.assertEqual(text.count("\n"), 1, text)
        return json.loads(text)

    def refuse(self, words, *parts, stdin=b"", code=2):
        """The run is refused in one line that holds all parts; it prints nothing and leaves no file."""
        before = sorted(os.listdir(self.folder))
        done = self.run_words(*words, stdin=stdin)
        message = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, (words, message))
        self.assertEqual(done.stdout, b"", words)
        self.assertEqual(message.count("\n"), 1, message)
        self.assertTrue(message.startswith("inkstone: "), message)
        for part in parts:
            self.assertIn(part, message)
        self.assertEqual(sorted(os.listdir(self.folder)), before, words)

    def copy_model(self, name, without=()):
        """A checkpoint folder of links, whose entries a test may replace."""
        os.mkdir(self.path(name))
        for entry in os.listdir(MODEL):
            if entry not in without:
                os.symlink(os.path.join(MODEL, entry), os.path.join(self.path(name), entry))
        return self.path(name)

    def change_config(self, name, **changes):
        """A checkpoint folder whose config.json differs."""
        folder = self.copy_model(name, without=("config.json",))
        with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as handle:
            config = json.load(handle)
        for key, value in changes.items():
            (config["text_config"] if key in config["text_config"] else config)[key] = value
        self.write(os.path.join(name, "config.json"), json.dumps(config))
        return folder


def read_safetensors(path):
    """name -> (shape, numbers) of a file of F32 and I32 tensors."""
    with open(path, "rb") as handle:
        data = handle.read()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        letter = {"F32": "f", "I32": "i"}[entry["dtype"]]
        tensors[name] = (entry["shape"], struct.unpack(f"<{(end - begin) // 4}{letter}", data[begin:end]))
    return tensors


def relative_difference(actual, expected):
    """Largest difference over the largest expected magnitude."""
    assert len(actual) == len(expected), (len(actual), len(expected))
    largest = max(abs(value) for value in expected)
    return max(abs(a - b) for a, b in zip(actual, expected)) / largest


def transcripts():
    with open(os.path.join(GOLDEN, "transcripts.json"), encoding="utf-8") as handle:
        return json.load(handle)


def is_text(transcript):
    return transcript["task"] not in ("image", "audio")
