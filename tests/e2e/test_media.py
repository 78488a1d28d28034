# SPDX-License-Identifier: Apache-2.0
"""Pictures and sounds as clients send them: OpenAI's and Anthropic's libraries, many at a time, drafts on."""
import base64
import concurrent.futures
import json
import pathlib

import anthropic
import openai
import pytest

GOLDEN = pathlib.Path(__file__).parent.parent / "data/golden"
TRANSCRIPTS = [entry for entry in json.loads((GOLDEN / "transcripts.json").read_text())
               if entry["task"] in ("image", "audio") and entry["prompt_follows_chat_spec"]]


def encoded(path):
    return base64.b64encode((GOLDEN / path).read_bytes()).decode()


def with_data(part):
    """A part of a transcript, with the file inside it."""
    if part["type"] == "image_url":
        return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + encoded(part["image_url"]["url"])}}
    if part["type"] == "input_audio":
        return {"type": "input_audio", "input_audio": {"data": encoded(part["input_audio"]["file"]), "format": "wav"}}
    return part


def text_of(entry):
    """The visible text of a transcript."""
    text = entry["text"].split("<|content_text|>")[-1]
    return text.split("<|end_message|>")[0]


def ask(client, entry, **fields):
    message = {"role": "user", "content": [with_data(part) for part in entry["request"]["messages"][0]["content"]]}
    return client.chat.completions.create(model="inkling-mini", messages=[message], temperature=0, max_tokens=128,
                                          reasoning_effort=None, extra_body={
                                              "reasoning_effort": entry["request"]["reasoning_effort"]}, **fields)


@pytest.fixture(scope="module")
def drafting():
    import conftest
    server = conftest.Server("--speculate", "8", "--sequences", "16")
    yield server
    assert server.stop() == 0


def test_transcripts_through_openai_sixteen_at_once_with_drafts(server, drafting):
    for one in (server, drafting):
        client = openai.OpenAI(base_url=one.url + "/v1", api_key="none")
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for _ in range(2):  # the second time with state of the first
                replies = list(pool.map(lambda entry: ask(client, entry), TRANSCRIPTS))
                for entry, reply in zip(TRANSCRIPTS, replies):
                    assert reply.choices[0].message.content == text_of(entry)
                    assert reply.usage.prompt_tokens == len(entry["prompt_ids"])
        assert sum(reply.usage.prompt_tokens_details.cached_tokens > 40 for reply in replies) == len(replies)


def test_the_same_picture_is_encoded_once(start_server):
    server = start_server()
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    for _ in range(3):
        ask(client, TRANSCRIPTS[0])
    assert server.metric("inkstone_encoded_media") == 1


def test_a_stream_about_a_picture(server):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    entry = TRANSCRIPTS[0]
    pieces = [chunk.choices[0].delta.content or "" for chunk in ask(client, entry, stream=True) if chunk.choices]
    assert "".join(pieces) == text_of(entry)


def test_a_picture_through_anthropic(server):
    client = anthropic.Anthropic(base_url=server.url, api_key="none")
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": encoded("images/08.png")}}
    reply = client.messages.create(model="inkling-mini", max_tokens=60, extra_body={"temperature": 0}, messages=[
        {"role": "user", "content": [picture, {"type": "text", "text": "What do you see?"}]}])
    assert "on a red background" in reply.content[-1].text


def test_refusals_reach_the_client_as_its_own_errors(server):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
    for url in ("data:image/png;base64,AAAA", "http://127.0.0.1:1/a.png", "file:///etc/passwd"):
        with pytest.raises(openai.BadRequestError) as error:
            client.chat.completions.create(model="inkling-mini", messages=[
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}])
        assert error.value.param == "messages[0].content[0].image_url.url"


def test_the_operator_opens_a_folder(start_server):
    server = start_server("--media-folder", str(GOLDEN))
    reply = server.post("/v1/chat/completions", {"temperature": 0, "max_tokens": 60, "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "images/08.png"}}, {"type": "text", "text": "What do you see?"}]}]})
    assert "on a red background" in reply.json()["choices"][0]["message"]["content"]
    for path in ("../README.md", "/etc/passwd", "images/../../evals/README.md"):
        refused = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": path}}]}]})
        assert refused.status_code == 400, path
