# SPDX-License-Identifier: Apache-2.0
"""OpenAI's own package, unchanged, on every endpoint it has a method for; streamed and whole give the same message."""
import json

import openai
import pytest

QUESTION = [{"role": "user", "content": "What is the capital of China?"}]
TOOLS = [{"type": "function",
          "function": {"name": "get_weather", "description": "Weather of a city",
                       "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                                      "required": ["city"]}}}]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120)


def joined(stream):
    content, reasoning, calls, finish, usage = "", "", {}, None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or []:
                name, arguments = calls.get(call.index, ("", ""))
                calls[call.index] = (name + (call.function.name or ""), arguments + (call.function.arguments or ""))
            finish = choice.finish_reason or finish
    return content, reasoning, [calls[index] for index in sorted(calls)], finish, usage


@pytest.mark.parametrize("effort", ["none", "high"])
def test_chat_is_the_same_whole_and_streamed(client, effort):
    fields = dict(model="inkling-mini", messages=QUESTION, temperature=0, reasoning_effort=effort)
    whole = client.chat.completions.create(**fields)
    message = whole.choices[0].message
    assert "Beijing" in message.content
    reasoning = getattr(message, "reasoning_content", None) or ""
    assert bool(reasoning) == (effort != "none")
    content, streamed_reasoning, _, finish, usage = joined(
        client.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
    assert (content, streamed_reasoning, finish) == (message.content, reasoning, whole.choices[0].finish_reason)
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert usage.prompt_tokens == whole.usage.prompt_tokens
    assert usage.prompt_tokens_details.cached_tokens > 0, "the second request found the prompt of the first"


def test_tools_are_the_same_whole_and_streamed(client):
    fields = dict(model="inkling-mini", messages=[{"role": "user", "content": "What is the weather in Paris?"}],
                  tools=TOOLS, temperature=0)
    whole = client.chat.completions.create(**fields)
    message = whole.choices[0].message
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
    for _, arguments in calls:
        json.loads(arguments)
    content, _, streamed, finish, _ = joined(client.chat.completions.create(**fields, stream=True))
    assert (content, streamed, finish) == (message.content or "", calls, whole.choices[0].finish_reason)
    assert "<|" not in content


def test_a_conversation_with_tools_over_five_turns(client):
    messages = []
    for turn in range(5):
        messages += [{"role": "user", "content": f"Turn {turn}: what is the weather in Paris?"},
                     {"role": "assistant", "content": None,
                      "tool_calls": [{"id": f"call_{turn}", "type": "function",
                                      "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}]},
                     {"role": "tool", "tool_call_id": f"call_{turn}", "content": "sunny"}]
        fields = dict(model="inkling-mini", messages=messages, tools=TOOLS, temperature=0, max_tokens=60)
        whole = client.chat.completions.create(**fields).choices[0]
        content, _, calls, finish, _ = joined(client.chat.completions.create(**fields, stream=True))
        assert content == (whole.message.content or "")
        if whole.finish_reason != "length":
            assert calls == [(c.function.name, c.function.arguments) for c in whole.message.tool_calls or []]
        assert finish == whole.finish_reason
        messages.append({"role": "assistant", "content": whole.message.content or "It is sunny."})


def test_the_seed_alone_decides(client):
    fields = dict(model="inkling-mini", messages=QUESTION, seed=7, n=4, temperature=1.2, max_tokens=40)
    first = [choice.message.content for choice in client.chat.completions.create(**fields).choices]
    again = [choice.message.content for choice in client.chat.completions.create(**fields).choices]
    assert first == again
    reasoning = [getattr(c.message, "reasoning_content", None) for c in client.chat.completions.create(**fields).choices]
    assert len({(a, b) for a, b in zip(first, reasoning)}) > 1, "choices have noise of their own"


@pytest.mark.parametrize("top", [0, 1, 20])
def test_logprobs(client, top):
    choice = client.chat.completions.create(model="inkling-mini", messages=QUESTION, logprobs=True, top_logprobs=top,
                                            temperature=0, max_tokens=8).choices[0]
    assert len(choice.logprobs.content) == 8
    for entry in choice.logprobs.content:
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) == top
        if top:
            assert entry.logprob == pytest.approx(entry.top_logprobs[0].logprob), "greedy takes the most likely token"


def test_tiny_temperatures_are_greedy(client):
    def text(temperature):
        return client.chat.completions.create(model="inkling-mini", messages=QUESTION, temperature=temperature,
                                              max_tokens=30).choices[0].message
    greedy = text(0)
    for temperature in (1e-3, 1e-10, 1e-30):
        assert text(temperature).content == greedy.content


def test_completions_stream_the_same_text(client):
    fields = dict(model="inkling-mini", prompt="The capital of China is", temperature=0, max_tokens=12)
    whole = client.completions.create(**fields).choices[0].text
    assert "".join(chunk.choices[0].text for chunk in client.completions.create(**fields, stream=True)) == whole


def test_an_echoed_prompt_has_the_logprobs_of_its_generation(client):
    fields = dict(model="inkling-mini", temperature=0, logprobs=2)
    prompt = "The capital of China is"
    drawn = client.completions.create(prompt=prompt, max_tokens=2, **fields).choices[0]
    reply = client.completions.create(prompt=prompt + drawn.text, echo=True, max_tokens=0, **fields)
    scored = reply.choices[0]
    assert scored.text == prompt + drawn.text
    assert reply.usage.completion_tokens == 0
    assert scored.logprobs.token_logprobs[0] is None
    count = len(scored.logprobs.tokens)
    assert count == reply.usage.prompt_tokens
    shared = drawn.logprobs.tokens
    assert scored.logprobs.tokens[-len(shared):] == shared
    for a, b in zip(scored.logprobs.token_logprobs[-len(shared):], drawn.logprobs.token_logprobs):
        assert a == pytest.approx(b, abs=1e-3)
    for offset, token in zip(scored.logprobs.text_offset, scored.logprobs.tokens):
        assert scored.text[offset:offset + len(token)] == token


def test_responses_stream_the_same_items(client):
    fields = dict(model="inkling-mini", input="What is the capital of China?", temperature=0, instructions="Be brief.")
    whole = client.responses.create(**fields)
    assert whole.status == "completed"
    assert whole.output_text
    final, deltas = None, ""
    for event in client.responses.create(**fields, stream=True):
        if event.type == "response.output_text.delta":
            deltas += event.delta
        if event.type == "response.completed":
            final = event.response
    assert deltas == whole.output_text == final.output_text
    assert [item.type for item in final.output] == [item.type for item in whole.output]
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_models_and_errors(client):
    assert [model.id for model in client.models.list().data] == ["inkling-mini"]
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="inkling-mini", messages=QUESTION, temperature=-1)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=QUESTION)
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model="inkling-mini", messages=[{"role": "user", "content": "word " * 40000}])
    assert any(character.isdigit() for character in str(long.value)), "both numbers are stated"
