# SPDX-License-Identifier: Apache-2.0
"""Picture files that Pillow cannot write itself: every PNG colour type and depth, interlaced or not, GIF frames beside
the screen's corner, JPEG with YCCK."""
import io
import struct
import zlib

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def _chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _row(samples, depth):
    if depth == 16:
        return b"\0" + b"".join(struct.pack(">H", s) for s in samples)
    if depth == 8:
        return b"\0" + bytes(samples)
    bits = "".join(format(s, f"0{depth}b") for s in samples)
    bits += "0" * (-len(bits) % 8)
    return b"\0" + bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def png(width, height, colour, depth, rng, interlaced=False, transparent=False):
    """Random samples of one PNG colour type and depth."""
    n = CHANNELS[colour]
    limit = 1 << depth
    rows = [[rng.randrange(limit) for _ in range(width * n)] for _ in range(height)]
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    raw = b""
    for x0, y0, dx, dy in passes:
        for y in range(y0, height, dy):
            samples = [rows[y][x * n + c] for x in range(x0, width, dx) for c in range(n)]
            if samples:
                raw += _row(samples, depth)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    out = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
    if colour == 3:
        out += _chunk(b"PLTE", bytes(rng.randrange(256) for _ in range(3 * limit)))
    if transparent:
        # One palette's alphas, or the one grey or colour that is transparent.
        body = bytes(rng.randrange(256) for _ in range(min(limit, 7)))
        if colour != 3:
            body = b"".join(struct.pack(">H", sample) for sample in rows[0][:n])
        out += _chunk(b"tRNS", body)
    return out + _chunk(b"IDAT", zlib.compress(raw)) + _chunk(b"IEND", b"")


def shifted_gif(image, left, top, screen):
    """The GIF of a palette image, its frame moved to (left, top) on a screen of another size."""
    out = io.BytesIO()
    image.save(out, "GIF")
    data = bytearray(out.getvalue())
    data[6:10] = struct.pack("<HH", *screen)
    at = 13 + (3 << ((data[10] & 7) + 1) if data[10] & 0x80 else 0)
    while data[at] == 0x21:  # extensions
        at += 2
        while data[at]:
            at += data[at] + 1
        at += 1
    data[at + 1:at + 5] = struct.pack("<HH", left, top)
    return bytes(data)


def ycck_jpeg(image, **settings):
    """A CMYK JPEG whose Adobe marker says that it holds YCCK."""
    out = io.BytesIO()
    image.save(out, "JPEG", **settings)
    data = bytearray(out.getvalue())
    at = data.find(b"Adobe")
    data[at + 11] = 2
    return bytes(data)
