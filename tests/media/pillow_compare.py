#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random pictures of every mode and of awkward sizes: decoded and resized by Inkstone and by Pillow, byte for byte.

  pillow_compare.py MEDIA_DUMP [SEED]
"""
import io
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

import PIL
from PIL import Image, ImageOps

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import picture_files  # noqa: E402

SIZES = [(1, 1), (1, 4000), (4000, 1), (2, 3), (7, 13), (41, 39), (300, 5), (33, 100), (640, 48), (2047, 9), (2049, 3)]
RULES = [("2.0", "2048"), ("null", "null"), ("2.0", "null"), ("0.37", "null"), ("1.3", "500")]


def random_image(mode, size, rng):
    bands = len(Image.new(mode, (1, 1)).getbands())
    if mode == "1":
        return Image.frombytes("L", size, rng.randbytes(size[0] * size[1])).convert("1")
    image = Image.frombytes(mode, size, rng.randbytes(size[0] * size[1] * bands))
    if mode == "P":
        image.putpalette(rng.randbytes(768))
    return image


def saved(image, kind, **settings):
    out = io.BytesIO()
    image.save(out, kind, **settings)
    return out.getvalue()


def pillow_files(rng):
    """(name, bytes) of files that Pillow writes."""
    for size in SIZES + [(rng.randrange(1, 200), rng.randrange(1, 200)) for _ in range(12)]:
        for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
            yield f"png {mode} {size}", saved(random_image(mode, size, rng), "PNG")
        for mode in ("L", "RGB", "CMYK"):
            image = random_image(mode, size, rng)
            for settings in ({"quality": 75}, {"quality": 95, "subsampling": 0}, {"quality": 60, "subsampling": 1},
                             {"quality": 80, "progressive": True}):
                yield f"jpeg {mode} {settings} {size}", saved(image, "JPEG", **settings)
        cmyk = random_image("CMYK", size, rng)
        yield f"jpeg ycck {size}", picture_files.ycck_jpeg(cmyk, quality=85)
        yield f"jpeg rgb {size}", saved(random_image("RGB", size, rng), "JPEG", keep_rgb=True)
        for mode in ("RGB", "RGBA"):
            image = random_image(mode, size, rng)
            yield f"webp lossless {mode} {size}", saved(image, "WEBP", lossless=True, exact=True)
            yield f"webp {mode} {size}", saved(image, "WEBP", quality=70)
        small = random_image("RGBA", (min(size[0], 90), min(size[1], 90)), rng)
        frames = [random_image("RGBA", small.size, rng) for _ in range(2)]
        yield f"webp animated {size}", saved(small, "WEBP", save_all=True, append_images=frames, lossless=True)
        for mode in ("L", "P"):
            yield f"gif {mode} {size}", saved(random_image(mode, size, rng), "GIF", interlace=size[0] % 2)
        yield f"gif transparent {size}", saved(random_image("P", size, rng), "GIF", transparency=5)


def crafted_files(rng):
    for colour, depths in ((0, (1, 2, 4, 8, 16)), (2, (8, 16)), (3, (1, 2, 4, 8)), (4, (8, 16)), (6, (8, 16))):
        for depth in depths:
            for size in ((1, 1), (41, 39), (9, 5), (3, 200)):
                for interlaced in (False, True):
                    name = f"png colour {colour} depth {depth} interlaced {interlaced} {size}"
                    yield name, picture_files.png(*size, colour, depth, rng, interlaced)
                    if colour in (0, 2, 3):
                        yield name + " tRNS", picture_files.png(*size, colour, depth, rng, interlaced, True)
    for transparency in ({}, {"transparency": 3}):
        image = random_image("P", (20, 11), rng)
        image.info.update(transparency)
        yield f"gif shifted {transparency}", picture_files.shifted_gif(image, 5, 9, (40, 30))
        yield f"gif beyond the screen {transparency}", picture_files.shifted_gif(image, 5, 9, (10, 10))


def exif_files(rng):
    image = random_image("RGB", (31, 17), rng)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        for kind, settings in (("JPEG", {"quality": 90}), ("PNG", {}), ("WEBP", {"lossless": True})):
            yield f"exif {kind} {orientation}", saved(image, kind, exif=exif, **settings)


def rescaled(size, rule):
    """`multimodal.md` 2.3, written a second time."""
    if rule[0] == "null":
        return size
    fraction = float(rule[0])
    long = max(size)
    target = long * fraction
    if rule[1] != "null" and fraction > 1:
        target = min(target, max(int(rule[1]), long))
    ratio = target / long
    return size if ratio == 1 else tuple(max(1, math.floor(side * ratio + 0.5)) for side in size)


def expected(data, alpha, rule):
    image = Image.open(io.BytesIO(data))
    image.load()
    if alpha == "white":
        image = image.convert("RGBA")
        page = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.composite(image, page, image.getchannel("A"))
    elif alpha == "drop+exif":
        image = ImageOps.exif_transpose(image)
    image = image.convert("RGB")
    size = rescaled(image.size, rule)
    if size[1] < image.size[1]:
        # From Pillow 13 on a tall picture shrinks along columns first, which rounds differently. The reference is older.
        image = image.resize((size[0], image.size[1]), Image.Resampling.LANCZOS)
    return image.resize(size, Image.Resampling.LANCZOS)


def jobs(rng):
    files = list(pillow_files(rng)) + list(crafted_files(rng))
    for i, (name, data) in enumerate(files):
        yield name, data, "drop", RULES[i % len(RULES)] if i % 3 else RULES[0]
        # Where one grey or colour is transparent, Pillow compares it unscaled: right for 1 and 8 bits only.
        unscaled = "tRNS" in name and "colour 3" not in name and "depth 1 " not in name and "depth 8" not in name
        if any(word in name for word in ("RGBA", "LA", "transparent", "tRNS", "colour 6")) and not unscaled:
            yield name + " on white", data, "white", ("null", "null")
    for name, data in exif_files(rng):
        yield name, data, "drop+exif", RULES[0]


def first_difference(got, want, size):
    for i, (a, b) in enumerate(zip(got, want)):
        if a != b:
            count = sum(x != y for x, y in zip(got, want))
            return f"{count} of {len(want)} bytes differ, first at x {i // 3 % size[0]} y {i // 3 // size[0]}: {a}, not {b}"
    return "the number of bytes differs"


def compare(name, out, want):
    with open(out, "rb") as file:
        size = struct.unpack("<qq", file.read(16))
        got = file.read()
    if size != want.size:
        return f"{name}: {size}, not {want.size}"
    want_bytes = want.tobytes()
    return None if got == want_bytes else f"{name}: {first_difference(got, want_bytes, size)}"


def main():
    dump = sys.argv[1]
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 20260715)
    with tempfile.TemporaryDirectory() as folder:
        todo = list(jobs(rng))
        lines = []
        for i, (_, data, alpha, rule) in enumerate(todo):
            with open(f"{folder}/{i}", "wb") as file:
                file.write(data)
            lines.append(f"picture {folder}/{i} {folder}/{i}.rgb {alpha} {rule[0]} {rule[1]}")
        answers = subprocess.run([dump], input="\n".join(lines), capture_output=True, text=True, check=True).stdout
        failures = []
        for i, ((name, data, alpha, rule), answer) in enumerate(zip(todo, answers.splitlines(), strict=True)):
            error = f"{name}: {answer}" if answer != "ok" else \
                compare(f"{name} {rule}", f"{folder}/{i}.rgb", expected(data, alpha, rule))
            if error:
                failures.append(error)
    for failure in failures[:40]:
        print(failure)
    print(f"pillow_compare: {len(todo) - len(failures)} of {len(todo)} pictures equal those of Pillow {PIL.__version__}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
