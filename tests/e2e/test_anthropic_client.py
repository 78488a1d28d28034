# SPDX-License-Identifier: Apache-2.0
"""Anthropic's own package on /v1/messages."""
import anthropic
import pytest

QUESTION = [{"role": "user", "content": "What is the capital of China?"}]


@pytest.fixture(scope="module")
def client(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=120)


def test_messages_are_the_same_whole_and_streamed(client):
    fields = dict(model="inkling-mini", max_tokens=100, messages=QUESTION, extra_body={"temperature": 0}, system="Be brief.")
    whole = client.messages.create(**fields)
    assert whole.stop_reason == "end_turn"
    assert "Beijing" in "".join(block.text for block in whole.content if block.type == "text")
    with client.messages.stream(**fields) as stream:
        streamed = stream.get_final_message()
    assert [block.to_dict() for block in streamed.content] == [block.to_dict() for block in whole.content]
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert streamed.stop_reason == whole.stop_reason


def test_tokens_are_counted_as_used(client):
    counted = client.messages.count_tokens(model="inkling-mini", messages=QUESTION).input_tokens
    used = client.messages.create(model="inkling-mini", max_tokens=1, messages=QUESTION)
    assert used.usage.input_tokens == counted
    assert used.stop_reason == "max_tokens"


def test_tool_results_and_thinking_are_understood(client):
    messages = [{"role": "user", "content": [{"type": "text", "text": "Weather in Paris?"}]},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "I call it.", "signature": "x"},
                                                  {"type": "tool_use", "id": "toolu_1", "name": "get_weather",
                                                   "input": {"city": "Paris"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}]}]
    tools = [{"name": "get_weather", "description": "w", "input_schema": {"type": "object", "properties": {}}}]
    reply = client.messages.create(model="inkling-mini", max_tokens=40, messages=messages, tools=tools,
                                   extra_body={"temperature": 0})
    assert reply.content


def test_stop_sequences(client):
    reply = client.messages.create(model="inkling-mini", max_tokens=100, messages=QUESTION, extra_body={"temperature": 0},
                                   stop_sequences=["China"])
    assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", "China")


def test_errors_have_their_form(client):
    with pytest.raises(anthropic.BadRequestError) as wrong:
        client.messages.create(model="inkling-mini", max_tokens=10, messages=QUESTION, extra_body={"temperature": -1})
    assert wrong.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="other", max_tokens=10, messages=QUESTION)
