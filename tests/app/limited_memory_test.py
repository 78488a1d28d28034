#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint larger than the memory that the kernel grants answers as it does without a limit.

  limited_memory_test.py PROGRAM MAKE_SYNTHETIC [unittest arguments]

The limit is that of a control group, which counts the page cache too. Where this user may not make one the test is
skipped and says why.
"""
import contextlib
import os
import re
import subprocess
import sys
import unittest

from program import ProgramTest

# One mixture of twelve experts with Small's shapes: 0.8 GB, of which every token reads 0.2 GB and six experts of 50 MB;
# half of it has room for three.
DIMENSIONS = ["--family", "inkling-small", "--layers", "1", "--dense", "0", "--experts", "12", "--vocabulary", "512"]
# What the program itself maps and allocates beside weights: its libraries, threads and buffers.
PROGRAM_BYTES = 96 << 20


class NoGroups(Exception):
    """Why no control group can be made here."""


def own_group(controller):
    """Path of this process's group in a hierarchy: of `controller`, or the unified one for the empty name."""
    with open("/proc/self/cgroup", encoding="utf-8") as handle:
        for line in handle:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controller in controllers.split(","):
                return path
    raise NoGroups(f"this process is in no control group of '{controller or 'the unified hierarchy'}'")


def candidates():
    """(folder in which to make a group, file of its limit), the likelier first."""
    unified = "/sys/fs/cgroup"
    if os.path.exists(os.path.join(unified, "cgroup.controllers")):
        own = os.path.join(unified, own_group("").lstrip("/"))
        return [(folder, "memory.max") for folder in (own, os.path.dirname(own), unified)]
    memory = "/sys/fs/cgroup/memory"
    if not os.path.isdir(memory):
        raise NoGroups("no hierarchy of control groups with memory limits is mounted")
    return [(os.path.join(memory, own_group("memory").lstrip("/")), "memory.limit_in_bytes"),
            (memory, "memory.limit_in_bytes")]


def write(path, text):
    with open(path, "w", encoding="ascii") as handle:
        handle.write(text)


def remove(folder):
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def make_group(limit_bytes):
    """A folder of a new group with this limit; NoGroups says why not."""
    reasons = []
    for parent, limit in candidates():
        folder = os.path.join(parent, f"inkstone-test-{os.getpid()}")
        try:
            os.mkdir(folder)
        except OSError as error:
            reasons.append(str(error))
            continue
        try:
            # Without the controller in the parent's subtree there is no such file.
            if not os.path.exists(os.path.join(folder, limit)):
                raise OSError(f"{folder} has no {limit}")
            write(os.path.join(folder, limit), str(limit_bytes))
            return folder
        except OSError as error:
            reasons.append(str(error))
            remove(folder)
    raise NoGroups("; ".join(reasons))


def peak_of(folder):
    """The most bytes that the group has had, or None where the kernel does not say."""
    for name in ("memory.peak", "memory.max_usage_in_bytes"):
        with contextlib.suppress(OSError), open(os.path.join(folder, name), encoding="ascii") as handle:
            return int(handle.read())
    return None


def run_in(folder, words):
    """Runs words in the group. Joining comes before the program's first page."""
    def join():
        write(os.path.join(folder, "cgroup.procs"), "0")
    return subprocess.run(words, capture_output=True, timeout=300, check=False, preexec_fn=join)


def drop_pages(path):
    """Pages of the file that others have read would be charged to them."""
    with open(path, "rb") as handle:
        os.fsync(handle.fileno())
        os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class LimitedMemory(ProgramTest):
    make_synthetic = ""

    def setUp(self):
        super().setUp()
        self.model = self.path("model")
        done = self.run_words(self.model, *DIMENSIONS, program=self.make_synthetic)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.weights = [os.path.join(self.model, name) for name in os.listdir(self.model) if name.endswith(".safetensors")]
        self.bytes = sum(map(os.path.getsize, self.weights))

    def words(self, *more):
        return [self.program, "bench", "decode", "--backend", "cpu", "--model", self.model, "--tokens", "4",
                "--prompt-tokens", "4", "--threads", "2", "--json", *more]

    def ids(self, done):
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace")[-2000:])
        return re.search(rb'"ids":(\[[0-9,]*\])', done.stdout).group(1)

    def test_gives_the_ids_of_a_run_without_a_limit(self):
        limit = self.bytes // 2
        try:
            folder = make_group(limit + PROGRAM_BYTES)
        except NoGroups as reason:
            self.skipTest(f"no control group with a memory limit can be made here: {reason}")
        self.addCleanup(remove, folder)
        free = self.ids(subprocess.run(self.words(), capture_output=True, timeout=300, check=False))
        for path in self.weights:
            drop_pages(path)
        try:
            limited = run_in(folder, self.words("--memory-limit", str(limit)))
        except (OSError, subprocess.SubprocessError) as error:
            self.skipTest(f"no process can join the control group: {error}")
        self.assertEqual(self.ids(limited), free)
        self.assertGreater(self.bytes, limit + PROGRAM_BYTES)
        peak = peak_of(folder)
        if peak is not None:
            # It was there: it held what every token reads, and never more than it was granted.
            self.assertTrue(limit // 4 < peak <= limit + PROGRAM_BYTES, peak)


if __name__ == "__main__":
    ProgramTest.program, LimitedMemory.make_synthetic = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
