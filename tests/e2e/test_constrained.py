# SPDX-License-Identifier: Apache-2.0
"""Answers under a schema, and forced calls, judged by the jsonschema package. INKSTONE_E2E_ANSWERS: how many (1000)."""
import concurrent.futures
import json
import os
import random

import jsonschema
import pytest

CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER
ANSWERS = int(os.environ.get("INKSTONE_E2E_ANSWERS", "1000"))


PATTERNS = ["^[A-Z]{2}-\\d{3}$", "^(red|green|blue)( light)?$", "^\\w+@\\w+\\.(com|org)$", "^[^\\s\"]{1,8}$", "^.{0,5}$", "a+b",
            "^(?:[01]\\d|2[0-3]):[0-5]\\d$", "^\\S{2,6}$", "^\\D?\\W{1,3}$"]
FORMATS = ["date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "email", "hostname"]


def random_number(chance):
    low = round(chance.uniform(-50, 50), chance.randrange(0, 3))
    schema = {"type": "number", chance.choice(["minimum", "exclusiveMinimum"]): low}
    if chance.random() < 0.7:
        schema[chance.choice(["maximum", "exclusiveMaximum"])] = round(low + chance.uniform(0.5, 2000), 2)
    return schema


def random_string(chance):
    kind = chance.randrange(3)
    if kind == 0:
        return {"type": "string", "maxLength": chance.randrange(1, 12)}
    if kind == 1:
        schema = {"type": "string", "pattern": chance.choice(PATTERNS)}
        return {**schema, "maxLength": 12} if "+" in schema["pattern"] else schema
    return {"type": "string", "format": chance.choice(FORMATS)}


def random_object(chance, depth):
    kind = chance.randrange(6)
    if kind == 0:
        return {"type": "object", "patternProperties": {"^[a-z]{1,3}$": random_schema(chance, depth + 1)},
                "additionalProperties": False, "maxProperties": 3}
    if kind == 1:
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": kind}, "value": random_schema(chance, depth + 1)},
                           "required": ["kind", "value"], "additionalProperties": False} for kind in ("cat", "dog")]}
    if kind == 2:
        parts = [{"type": "object", "properties": {name: random_schema(chance, depth + 1)}, "required": [name]}
                 for name in chance.sample(["a", "b", "c"], 2)]
        return {"allOf": parts}
    names = chance.sample(["name", "age", "tags", "\u00e9t\u00e9", "nested", "x y"], chance.randrange(1, 4))
    return {"type": "object", "properties": {name: random_schema(chance, depth + 1) for name in names},
            "required": chance.sample(names, chance.randrange(0, len(names) + 1)), "additionalProperties": False}


def random_schema(chance, depth=0):
    kinds = ["string", "string", "integer", "number", "number", "boolean", "null", "enum", "const", "range", "multiple"]
    if depth < 3:
        kinds += ["object", "object", "object", "array", "set", "anyOf", "nullable"]
    kind = chance.choice(kinds)
    if kind == "string":
        return random_string(chance)
    if kind == "number":
        return random_number(chance)
    if kind == "object":
        return random_object(chance, depth)
    if kind == "enum":
        return {"enum": chance.sample(["red", "gr\u00fcn", 7, None, True, "a \"quote\""], 3)}
    if kind == "const":
        return {"const": chance.choice(["x", 1.5, [1, {"a": 2}]])}
    if kind == "range":
        low = chance.randrange(-1500, 1500)
        return {"type": "integer", "minimum": low, "maximum": low + chance.randrange(0, 3000)}
    if kind == "multiple":
        return {"type": "integer", "multipleOf": chance.choice([2, 5, 25]), "exclusiveMinimum": chance.randrange(-99, 99)}
    if kind == "array":
        least = chance.randrange(0, 3)
        return {"type": "array", "items": random_schema(chance, depth + 1), "minItems": least, "maxItems": least + 2}
    if kind == "set":
        return {"type": "array", "items": {"enum": ["a", "b", 3, None]}, "uniqueItems": True, "minItems": chance.randrange(0, 3)}
    if kind == "anyOf":
        return {"anyOf": [random_schema(chance, depth + 1), random_schema(chance, depth + 1)]}
    if kind == "nullable":
        return {"type": ["string", "null"], "maxLength": 4}
    return {"type": kind}


def ask(server, seed, schema, **fields):
    body = {"messages": [{"role": "user", "content": "Give me an example."}], "temperature": 1.5, "seed": seed,
            "reasoning_effort": "none", "max_tokens": 400,
            "logit_bias": fields.pop("logit_bias", {}),
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}, **fields}
    return server.post("/v1/chat/completions", body)


def test_every_answer_satisfies_its_schema(server):
    chance = random.Random(1)
    schemas = [{"type": "object", "properties": {"answer": random_schema(chance)}, "required": ["answer"],
                "additionalProperties": False} for _ in range(60)]

    def one(seed):
        schema = schemas[seed % len(schemas)]
        reply = ask(server, seed, schema)
        assert reply.status_code == 200, reply.text
        choice = reply.json()["choices"][0]
        if choice["finish_reason"] == "length":
            return 0
        assert choice["finish_reason"] == "stop"
        jsonschema.validate(json.loads(choice["message"]["content"]), schema, format_checker=CHECKER)
        return 1

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        complete = sum(pool.map(one, range(ANSWERS)))
    print(f"{complete} of {ANSWERS} answers complete and valid")
    assert complete >= ANSWERS * 0.95


def test_a_complete_object_ends_the_answer(server):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    reply = ask(server, 1, schema, temperature=0).json()["choices"][0]
    assert reply["finish_reason"] == "stop"
    assert isinstance(json.loads(reply["message"]["content"])["a"], int)


def test_json_object_mode(server):
    reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0,
                                                 "max_tokens": 200, "response_format": {"type": "json_object"}})
    choice = reply.json()["choices"][0]
    if choice["finish_reason"] == "stop":
        assert isinstance(json.loads(choice["message"]["content"]), dict)


TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
    "required": ["city", "days"], "additionalProperties": False}}} for name in ("get_weather", "search")]


@pytest.mark.parametrize("choice, names", [("required", {"get_weather", "search"}),
                                           ({"type": "function", "function": {"name": "search"}}, {"search"})])
def test_forced_calls(server, choice, names):
    for seed in range(10):
        body = {"messages": [{"role": "user", "content": "Hello!"}], "tools": TOOLS, "tool_choice": choice, "seed": seed,
                "temperature": 1.0, "max_tokens": 400, "parallel_tool_calls": False}
        reply = server.post("/v1/chat/completions", body).json()["choices"][0]
        if reply["finish_reason"] == "length":
            continue
        assert reply["finish_reason"] == "tool_calls"
        assert len(reply["message"]["tool_calls"]) == 1
        function = reply["message"]["tool_calls"][0]["function"]
        assert function["name"] in names
        jsonschema.validate(json.loads(function["arguments"]), TOOLS[0]["function"]["parameters"])
        assert not reply["message"]["content"]


@pytest.mark.parametrize("schema, keyword", [
    ({"type": "string", "pattern": "(?!a)b"}, "pattern"), ({"type": "string", "format": "iri"}, "format"),
    ({"type": "number", "multipleOf": 0.1}, "multipleOf"), ({"not": {}}, "not"),
    ({"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}, "uniqueItems"),
    ({"$ref": "http://elsewhere/x"}, "$ref"), ({"oneOf": [{}, {}]}, "oneOf"), ({"if": {}}, "if")])
def test_what_cannot_be_guaranteed_is_refused_by_name(server, schema, keyword):
    reply = ask(server, 1, schema)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].endswith(keyword)
