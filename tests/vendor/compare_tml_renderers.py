#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our prompts with those of PyPI's tml-renderers, the vendor's own package (it needs torch).

    python3 -m pip install tml-renderers torch
    python3 tests/vendor/compare_tml_renderers.py build/release/tests/vendor/render_lines

Requests are translated into the vendor's message types here, because its bridge from OpenAI messages drops reasoning and the
names of results. Exit code 0: equal. 1: different. 77: the package is not installed, nothing was compared.
"""
import json
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NUM_RANDOM = 500


def vendor_messages(chat, request):
    """The vendor's messages of a request: one for each block, and the end of sampling after each assistant turn."""
    model = chat.Author(chat.AuthorKind.Model)
    system = chat.Author(chat.AuthorKind.System)
    leading, rest, names = [], [], {}
    for message in request["messages"]:
        role = message["role"]
        out = leading if role == "system" and not rest else rest
        text = message.get("content")
        if role == "system":
            out.append(chat.Message(chat.Text(text), system))
        elif role == "user":
            out.append(chat.Message(chat.Text(text), chat.Author(chat.AuthorKind.User)))
        elif role == "tool":
            name = message.get("name") or names[message["tool_call_id"]]
            out.append(chat.Message(chat.Text(text), chat.Author(chat.AuthorKind.Tool, name)))
        else:
            if message.get("reasoning_content"):
                out.append(chat.Message(chat.Thinking(message["reasoning_content"]), model))
            if text:
                out.append(chat.Message(chat.Text(text), model))
            for call in message.get("tool_calls", []):
                names[call["id"]] = call["function"]["name"]
                arguments = json.loads(call["function"]["arguments"])
                args = [chat.ToolArg(key, json.dumps(value)) for key, value in arguments.items()]
                name = call["function"]["name"]
                author = chat.Author(chat.AuthorKind.Model, name)
                out.append(chat.Message(chat.InvokeTool(chat.StructuredToolCall(name, args)), author))
            out.append(chat.Message(chat.ModelEndSampling(), model))
    if request.get("tools"):
        functions = [tool["function"] for tool in request["tools"]]
        specs = [
            chat.ToolSpecJson("function", f["name"], f.get("description", ""), f.get("parameters", {})) for f in functions
        ]
        leading.append(chat.Message(chat.ToolDeclareJson(specs), chat.Author(chat.AuthorKind.System, "tool_declare")))
    return leading + rest


def vendor_ids(chat, renderer, request):
    spans, _ = renderer.render_for_completion_with_effort(vendor_messages(chat, request), request["reasoning_effort"])
    return [token for span in spans for token in span.span.tokens]


class Requests:
    """Random conversations: odd texts, markers spelled in text, nested JSON with every kind of number."""

    WORDS = ["a", "Hello", " world", "\n\n", "  ", "é", "搜索", "🦀", "don't", "12345", "<|end_message|>", "<|content_text|>", "\t", '"', "\\"]
    NUMBERS = [0, -0.0, -1, -9223372036854775808, 12345678901234567890, 5e-324, 1.7976931348623157e308, 100.0, 1.0, 1e20, 1.5e-7, 1e-5, 0.1, -2.5, 123456.75, 1e15, 1e16, 9.9e-6]
    EFFORTS = [0.0, 0.1, 0.2, 0.37, 0.7, 0.9, 0.99]

    # In tool schemas the package writes "1e+20", in call arguments "1e20"; ours has one form, the latter.
    SCHEMA_NUMBERS = [number for number in NUMBERS if not isinstance(number, float) or abs(number) < 1e16]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = self.NUMBERS

    def text(self):
        return "".join(self.random.choice(self.WORDS) for _ in range(self.random.randint(1, 8)))

    def value(self, depth=0):
        kind = self.random.randint(0, 6 if depth < 3 else 4)
        if kind == 5:
            return [self.value(depth + 1) for _ in range(self.random.randint(0, 3))]
        if kind == 6:
            return self.object(depth + 1)
        return [None, self.random.random() < 0.5, self.text(), self.random.choice(self.numbers), self.text()][kind]

    def object(self, depth=0):
        return {self.text(): self.value(depth) for _ in range(self.random.randint(0, 4))}

    def tool(self, idx):
        self.numbers = self.SCHEMA_NUMBERS
        function = {"name": f"tool_{idx}", "description": self.text(), "parameters": self.object()}
        self.numbers = self.NUMBERS
        return {"type": "function", "function": function}

    def turn(self, idx):
        calls = [
            {"id": f"c{idx}_{n}", "type": "function", "function": {"name": f"tool_{n}", "arguments": json.dumps(self.object())}}
            for n in range(self.random.randint(0, 2))
        ]
        assistant = {"role": "assistant", "content": self.text()}
        if self.random.random() < 0.5:
            assistant["reasoning_content"] = self.text()
        if calls:
            assistant["tool_calls"] = calls
        results = [{"role": "tool", "tool_call_id": call["id"], "content": self.text()} for call in calls]
        return [{"role": "user", "content": self.text()}, assistant, *results]

    def next(self):
        messages = [{"role": "system", "content": self.text()} for _ in range(self.random.randint(0, 2))]
        for idx in range(self.random.randint(0, 3)):
            messages += self.turn(idx)
        messages.append({"role": "user", "content": self.text()})
        request = {"messages": messages, "reasoning_effort": self.random.choice(self.EFFORTS)}
        if self.random.random() < 0.5:
            request["tools"] = [self.tool(idx) for idx in range(self.random.randint(1, 3))]
        return request


def our_ids(program, requests):
    lines = "".join(json.dumps(request | {"add_generation_prompt": False}) + "\n" for request in requests)
    result = subprocess.run([program], input=lines, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def main():
    try:
        from tml_renderers import chat, tokenizers, v0
    except (ImportError, RuntimeError) as fault:
        print(f"compare_tml_renderers: tml-renderers cannot be loaded ({fault}), nothing was compared")
        return 77
    renderer = v0.Renderer(tokenizers.o200k_base_chat())
    source = Requests(2026)
    requests = [source.next() for _ in range(NUM_RANDOM)]
    num_different = 0
    for request, ours in zip(requests, our_ids(sys.argv[1], requests), strict=True):
        theirs = vendor_ids(chat, renderer, request)
        if ours == theirs:
            continue
        num_different += 1
        if num_different <= 3:
            print(f"request: {json.dumps(request, ensure_ascii=False)}\n  ours:   {ours}\n  theirs: {theirs}")
    print(f"compare_tml_renderers: {len(requests) - num_different} of {len(requests)} prompts are equal")
    return 1 if num_different else 0


if __name__ == "__main__":
    sys.exit(main())
