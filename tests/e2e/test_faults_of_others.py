# SPDX-License-Identifier: Apache-2.0
"""Faults that people met on other engines (what the unit tests of the server cannot show): with drafts, at the limits of
context and cache, beside neighbours."""
import concurrent.futures
import json
import threading
import time

import pytest

QUESTION = [{"role": "user", "content": "What is the capital of China?"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "known": {"type": "boolean"}},
          "required": ["city", "known"], "additionalProperties": False}


@pytest.fixture(scope="module")
def drafting():
    import conftest
    server = conftest.Server("--speculate", "4")
    yield server
    assert server.stop() == 0


def chat(server, **fields):
    reply = server.post("/v1/chat/completions", {"messages": QUESTION, "max_tokens": 60, **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_drafts_change_neither_texts_nor_logprobs(server, drafting):
    for fields in ({"temperature": 0, "logprobs": True, "top_logprobs": 3}, {"temperature": 1, "seed": 5, "logprobs": True}):
        plain, drafted = (chat(one, **fields)["choices"][0] for one in (server, drafting))
        assert plain["message"] == drafted["message"]
        entries = [choice["logprobs"]["content"] for choice in (plain, drafted)]
        assert len(entries[0]) == len(entries[1])
        for a, b in zip(*entries):
            assert a["logprob"] == pytest.approx(b["logprob"], abs=1e-3)
            assert [top["token"] for top in a["top_logprobs"]] == [top["token"] for top in b["top_logprobs"]]


def test_stop_strings_with_drafts(server, drafting):
    for one in (server, drafting):
        choice = chat(one, temperature=0, stop=["Beijing"])["choices"][0]
        assert "Beijing" in choice["message"]["reasoning_content"], "thinking is not stopped"
        assert choice["message"]["content"] == "The capital of China is "


def test_schemas_with_drafts(server, drafting):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    for seed in range(5):
        fields = {"response_format": form, "seed": seed, "temperature": 1, "reasoning_effort": "none", "max_tokens": 200}
        plain, drafted = (chat(one, **fields)["choices"][0] for one in (server, drafting))
        assert plain == drafted
        assert set(json.loads(plain["message"]["content"])) == {"city", "known"}


def test_a_seed_is_alone_among_neighbours(server):
    fields = {"n": 4, "seed": 7, "temperature": 1.2, "max_tokens": 30}

    def texts():
        return [choice["message"] for choice in chat(server, **fields)["choices"]]

    alone = texts()
    with concurrent.futures.ThreadPoolExecutor(17) as pool:
        neighbours = [pool.submit(chat, server, temperature=1, max_tokens=60) for _ in range(16)]
        assert pool.submit(texts).result() == alone
        for neighbour in neighbours:
            neighbour.result()


def test_prompts_around_the_context_limit(start_server):
    server = start_server("--max-context", "256")
    for tokens, expected in ((254, 200), (255, 200), (256, 400), (300, 400)):
        reply = server.post("/v1/completions", {"prompt": [5] * tokens, "max_tokens": 1})
        assert reply.status_code == expected, (tokens, reply.text)
        if expected == 400:
            assert "256" in reply.json()["error"]["message"] and str(tokens) in reply.json()["error"]["message"]
    reply = server.post("/v1/completions", {"prompt": [5] * 250, "max_tokens": 1000, "ignore_eos": True})
    assert reply.status_code in (200, 400)
    if reply.status_code == 200:
        assert reply.json()["choices"][0]["finish_reason"] == "length"


def test_what_can_never_fit_is_refused_and_the_rest_waits(start_server):
    server = start_server("--cache-memory", "1", "--sequences", "2")
    assert server.post("/v1/completions", {"prompt": [5] * 30000, "max_tokens": 1}).status_code == 400
    replies = []

    def one():
        replies.append(server.post("/v1/completions", {"prompt": [5] * 64, "max_tokens": 32, "ignore_eos": True}))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    deadline = time.time() + 60
    for thread in threads:
        thread.join(timeout=max(0.1, deadline - time.time()))
    assert [reply.status_code for reply in replies] == [200] * 8, "all of them got their turn"
