# SPDX-License-Identifier: Apache-2.0
"""200 clients at once, of which some leave, read slowly or send half a request. INKSTONE_E2E_SECONDS: how long (60)."""
import asyncio
import json
import os
import random
import time
import urllib.parse

QUESTIONS = ["What is the capital of China?", "What is the capital of France?", "What is the capital of Japan?"]
SECONDS = float(os.environ.get("INKSTONE_E2E_SECONDS", "60"))
CLIENTS = 200
FREE = ("cache_free_pages", "cache_free_slots")


def request_bytes(question, host):
    body = json.dumps({"messages": [{"role": "user", "content": question}], "temperature": 0, "stream": True,
                       "max_tokens": 64}).encode()
    return (f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n").encode() + body


def content_of(stream):
    text = ""
    for line in stream.decode().split("\n"):
        if line.startswith("data: {"):
            for choice in json.loads(line[6:].rstrip("\r"))["choices"]:
                text += choice["delta"].get("content") or ""
    return text


def unchunked(raw):
    head, _, rest = raw.partition(b"\r\n\r\n")
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return head, body
        body += rest[:length]
        rest = rest[length + 2:]
    return head, None


class Crowd:
    def __init__(self, url, expected):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.expected = parts.hostname, parts.port, expected
        self.completed = self.wrong = self.refused = 0
        self.end = time.monotonic() + SECONDS

    async def client(self, seed):
        chance = random.Random(seed)
        while time.monotonic() < self.end:
            question = chance.choice(QUESTIONS)
            reader, writer = await asyncio.open_connection(self.host, self.port, limit=4096)
            try:
                await chance.choice([self.whole, self.whole, self.leaving, self.slow, self.half])(
                    reader, writer, question, chance)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

    async def whole(self, reader, writer, question, _, pause=0.0):
        writer.write(request_bytes(question, self.host))
        raw = b""
        while piece := await reader.read(2048):
            raw += piece
            await asyncio.sleep(pause)
        if b" 429 " in raw[:20]:
            self.refused += 1
            return
        _, body = unchunked(raw)
        self.completed += 1
        if body is None or content_of(body) != self.expected[question]:
            self.wrong += 1

    async def slow(self, reader, writer, question, chance):
        await self.whole(reader, writer, question, chance, pause=0.05)

    async def leaving(self, reader, writer, question, chance):
        writer.write(request_bytes(question, self.host))
        await asyncio.sleep(chance.random() * 0.5)

    async def half(self, reader, writer, question, chance):
        whole = request_bytes(question, self.host)
        writer.write(whole[:chance.randrange(1, len(whole))])
        await asyncio.sleep(chance.random() * 0.3)


async def run_crowd(crowd):
    await asyncio.gather(*(crowd.client(seed) for seed in range(CLIENTS)))


def free_at_rest(server):
    """Pages and slots once nobody is computed. An answer arrives a moment before the engine has let go of it."""
    deadline = time.time() + 30
    while True:
        assert time.time() < deadline, "somebody is still computed"
        before, busy, after = ([server.metric(f"inkstone_{name}") for name in names] for names in
                               (FREE, ("requests_running", "requests_waiting"), FREE))
        if busy == [0, 0] and before == after:
            return after
        time.sleep(0.1)


def test_a_crowd_leaves_everything_as_it_was(server):
    expected = {}
    for question in QUESTIONS:
        reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": question}],
                                                     "temperature": 0, "max_tokens": 64}).json()
        expected[question] = reply["choices"][0]["message"]["content"] or ""
    free = free_at_rest(server)
    crowd = Crowd(server.url, expected)
    asyncio.run(run_crowd(crowd))
    print(f"completed {crowd.completed}, wrong {crowd.wrong}, refused {crowd.refused}")
    assert crowd.completed > 20
    assert crowd.wrong == 0
    assert free_at_rest(server) == free
