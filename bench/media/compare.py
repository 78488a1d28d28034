#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Preparing a picture with Inkstone and with Pillow and NumPy, and a minute of sound, in one run on one core.

  tests/media/with_packages.sh build/release/python-media "pillow numpy" bench/media/compare.py MEDIA_BENCH

Times are processor time, so that a busy machine disturbs them less. Prints no number when the patches differ.
"""
import os
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np
import PIL
from PIL import Image

PATCH = 40
MEAN = np.array([0.48145466, 0.4578275, 0.40821073], np.float32) * np.float32(255)
DEVIATION = np.array([0.26862954, 0.26130258, 0.27577711], np.float32) * np.float32(255)
ROUNDS = 7


def photo(width, height, path):
    """Smooth shapes, edges and grain: about as many bits a pixel as a photograph."""
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    planes = [128 + 90 * np.sin(x / (90 + 40 * c) + c) * np.cos(y / (130 - 30 * c)) for c in range(3)]
    image = np.stack(planes, 2) + 40 * ((x // 173 + y // 211) % 2)[..., None]
    image += rng.normal(0, 6, image.shape)
    Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(path, quality=90)


def wav(seconds, rate, channels, path):
    rng = np.random.default_rng(8)
    t = np.arange(seconds * rate)[:, None] / rate
    sound = 0.3 * np.sin(2 * np.pi * 440 * t) + rng.normal(0, 0.05, (seconds * rate, channels))
    body = (sound * 32767).astype("<i2").tobytes()
    head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(body), b"WAVEfmt ", 16, 1, channels, rate,
                       rate * channels * 2, channels * 2, 16, b"data", len(body))
    with open(path, "wb") as file:
        file.write(head + body)


def with_numpy(path):
    """The same work without waste: one time frame, arithmetic in place."""
    image = Image.open(path).convert("RGB")
    long = max(image.size)
    ratio = min(long * 2.0, max(2048, long)) / long
    if ratio != 1:
        image = image.resize(tuple(max(1, int(side * ratio + 0.5)) for side in image.size), Image.Resampling.LANCZOS)
    width, height = image.size
    rows, columns = -(-height // PATCH), width // PATCH + 1
    canvas = np.full((rows * PATCH, columns * PATCH, 3), -1, np.float32)
    canvas[:height, :width] = np.asarray(image)
    np.subtract(canvas, MEAN, out=canvas)
    np.divide(canvas, DEVIATION, out=canvas)
    patches = canvas.reshape(rows, PATCH, columns, PATCH, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(patches).reshape(rows * columns, -1)


def milliseconds(bench, *arguments):
    answer = subprocess.run([bench, *map(str, arguments)], capture_output=True, text=True, check=True)
    return [float(line) for line in answer.stdout.split()]


def compare_picture(bench, width, height, folder):
    path = f"{folder}/{width}x{height}.jpg"
    photo(width, height, path)
    milliseconds(bench, "picture", path, 1, f"{folder}/patches")
    if not np.array_equal(np.fromfile(f"{folder}/patches", np.float32).reshape(-1, PATCH * PATCH * 3), with_numpy(path)):
        print(f"{width}x{height}: the patches differ")
        return 1
    ours, theirs = [], []
    for _ in range(ROUNDS):  # alternating, so that a busy machine disturbs both alike
        ours += milliseconds(bench, "picture", path, 2)[1:]
        start = time.process_time()
        with_numpy(path)
        theirs.append(1000 * (time.process_time() - start))
    ours, theirs = sorted(ours), sorted(theirs)
    print(f"JPEG {width}x{height} ({os.path.getsize(path) / 1e6:.1f} MB): {ours[0]:.0f} ms (median {ours[ROUNDS // 2]:.0f}), "
          f"Pillow {PIL.__version__} + NumPy {np.__version__} {theirs[0]:.0f} ms (median {theirs[ROUNDS // 2]:.0f}): "
          f"{theirs[0] / ours[0]:.2f} times as fast (medians {theirs[ROUNDS // 2] / ours[ROUNDS // 2]:.2f})")
    return 0


def main():
    bench = sys.argv[1]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for size in ((4096, 4096), (1024, 1024), (640, 480)):
            failures += compare_picture(bench, *size, folder)
        for rate, channels in ((16000, 1), (44100, 2), (48000, 2)):
            path = f"{folder}/{rate}.wav"
            wav(60, rate, channels, path)
            times = sorted(milliseconds(bench, "sound", path, ROUNDS))
            print(f"WAV 60 s, {rate} Hz, {channels} channels: {times[0]:.1f} ms (median {times[ROUNDS // 2]:.1f})")
    return failures


if __name__ == "__main__":
    sys.exit(main())
