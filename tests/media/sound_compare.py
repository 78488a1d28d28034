#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Resampling to 16 kHz by Inkstone, by the definition evaluated in NumPy with its whole kernel, and by torchaudio where
it is installed.

  sound_compare.py MEDIA_DUMP
"""
import math
import struct
import subprocess
import sys
import tempfile

import numpy as np

RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000, 44101)
TARGET = 16000
# The definition is evaluated in f64: f32 sums of about 40 products of numbers below 1 differ by this much. torchaudio
# rounds the phase p/n, in some of its entry points everything, to f32 before the sine, which costs most at 44,101 Hz.
TOLERANCES = {"the definition": 2e-6, "torchaudio": 3e-4}


def by_definition(samples, rate):
    divisor = math.gcd(rate, TARGET)
    step_in, step_out = rate // divisor, TARGET // divisor
    if step_in == step_out:
        return samples
    base = 0.99 * min(step_in, step_out)
    width = math.ceil(6 * step_in / base)
    length = -(-len(samples) * step_out // step_in)
    padded = np.concatenate([np.zeros(width), samples, np.zeros(width + 2 * step_in)])
    offsets = (np.arange(2 * width + step_in) - width) / step_in
    out = np.empty(length)
    for p in range(min(step_out, length)):
        t = np.clip(base * (offsets - p / step_out), -6, 6)
        kernel = (base / step_in * np.cos(np.pi * t / 12) ** 2 * np.sinc(t)).astype(np.float32)
        for i in range(p, length, step_out):
            begin = i // step_out * step_in
            out[i] = kernel @ padded[begin:begin + len(kernel)]
    return out


def by_torchaudio(samples, rate):
    import torch
    import torchaudio
    return torchaudio.functional.resample(torch.from_numpy(samples), rate, TARGET).numpy()


def float_wav(samples, rate):
    body = samples.astype("<f4").tobytes()
    return struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(body), b"WAVEfmt ", 16, 3, 1, rate, rate * 4, 4, 32,
                       b"data", len(body)) + body


def peers():
    yield "the definition", by_definition
    try:
        import torchaudio  # noqa: F401
        yield "torchaudio", by_torchaudio
    except ImportError:
        print("sound_compare: torchaudio is not installed")


def main():
    rng = np.random.default_rng(3)
    sounds = [rng.uniform(-1, 1, rate // 16 + 13).astype(np.float32) for rate in RATES]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for rate, samples in zip(RATES, sounds):
            with open(f"{folder}/{rate}.wav", "wb") as file:
                file.write(float_wav(samples, rate))
            jobs.append(f"sound {folder}/{rate}.wav {folder}/{rate}.out")
        subprocess.run([sys.argv[1]], input="\n".join(jobs), text=True, check=True, stdout=subprocess.DEVNULL)
        for name, peer in peers():
            for rate, samples in zip(RATES, sounds):
                got = np.fromfile(f"{folder}/{rate}.out", np.float32)
                want = peer(samples, rate)
                difference = np.abs(got - want).max() if got.shape == want.shape else math.inf
                failures += difference > TOLERANCES[name]
                print(f"{rate} Hz: {len(got)} samples, at most {difference:.1e} from {name}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
