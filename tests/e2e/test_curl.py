# SPDX-License-Identifier: Apache-2.0
"""curl on every endpoint, and what only a process as a whole shows: keys from file and environment, the end."""
import json
import signal
import socket
import subprocess
import threading
import time

import pytest
import requests

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}


def curl(url, body=None, *options):
    command = ["curl", "-sS", "--max-time", "60", "-w", "\n%{http_code}", *options, url]
    sent = None
    if body is not None:
        command += ["-H", "content-type: application/json", "-d", "@-"]
        sent = json.dumps(body)
    text, status = subprocess.run(command, check=True, capture_output=True, text=True, input=sent).stdout.rsplit("\n", 1)
    return int(status), text


@pytest.mark.parametrize("path, body", [
    ("/v1/chat/completions", CHAT),
    ("/v1/completions", {"prompt": "Hi", "max_tokens": 2}),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 2}),
    ("/v1/messages", {**CHAT}),
    ("/v1/messages/count_tokens", {"messages": CHAT["messages"]}),
    ("/tokenize", {"prompt": "Hi"}),
    ("/detokenize", {"tokens": [1, 2]}),
    ("/render", {"messages": CHAT["messages"]}),
    ("/v1/models", None), ("/health", None), ("/ready", None), ("/version", None), ("/metrics", None), ("/", None)])
def test_every_endpoint_answers(server, path, body):
    status, text = curl(server.url + path, body)
    assert status == 200, text
    if body is not None:
        json.loads(text)


@pytest.mark.parametrize("path, body, last", [
    ("/v1/chat/completions", CHAT, "data: [DONE]"),
    ("/v1/completions", {"prompt": "Hi", "max_tokens": 2}, "data: [DONE]"),
    ("/v1/responses", {"input": "Hi", "max_output_tokens": 2}, None),
    ("/v1/messages", CHAT, 'data: {"type":"message_stop"}')])
def test_every_stream_has_its_end(server, path, body, last):
    status, text = curl(server.url + path, {**body, "stream": True}, "-N")
    assert status == 200
    lines = [line for line in text.splitlines() if line]
    if last:
        assert lines[-1] == last
    else:
        assert json.loads(lines[-1][6:])["type"] in ("response.completed", "response.incomplete")


def test_a_large_upload_is_answered(server):
    status, text = curl(server.url + "/tokenize", {"prompt": "word " * 200_000})
    assert status == 200
    assert json.loads(text)["count"] >= 200_000


def test_keys_come_from_file_and_environment(start_server, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# keys\nalpha\n\nbeta\n")
    server = start_server("--api-key-file", str(keys), env={"INKSTONE_API_KEY": "gamma"})
    for key in ("alpha", "beta", "gamma"):
        assert curl(server.url + "/v1/models", None, "-H", f"authorization: Bearer {key}")[0] == 200
    assert curl(server.url + "/v1/models")[0] == 401
    assert curl(server.url + "/health")[0] == 200


def test_the_end_waits_for_answers(start_server):
    server = start_server()
    reply = {}
    ask = threading.Thread(target=lambda: reply.update(server.post("/v1/chat/completions", {**CHAT, "max_tokens": 200,
                                                                                            "ignore_eos": True}).json()))
    ask.start()
    time.sleep(0.3)
    assert server.stop() == 0
    ask.join()
    assert reply["choices"][0]["finish_reason"] == "length"


def test_a_bad_port_is_a_usage_error(server):
    import conftest
    taken = server.url.rsplit(":", 1)[1]
    result = subprocess.run([conftest.BINARY, "serve", "--port", taken], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert taken in result.stderr


def test_requests_leave_no_trace_in_the_gauges(server):
    assert curl(server.url + "/v1/chat/completions", CHAT)[0] == 200
    deadline = time.time() + 10
    while server.metric("inkstone_requests_running") + server.metric("inkstone_requests_waiting") > 0:
        assert time.time() < deadline
        time.sleep(0.05)


def test_limits_are_options(start_server):
    server = start_server("--max-body", "1", "--max-messages", "2", "--body-time", "1", "--strict-fields")
    assert curl(server.url + "/tokenize", {"prompt": "a" * 2_000_000})[0] == 413
    assert curl(server.url + "/v1/chat/completions", {"messages": CHAT["messages"] * 3})[0] == 400
    status, text = curl(server.url + "/v1/chat/completions", {**CHAT, "wizardry": 1})
    assert (status, json.loads(text)["error"]["param"]) == (400, "wizardry")
    assert curl(server.url + "/v1/chat/completions", CHAT)[0] == 200
    with socket.create_connection((server.url.split("/")[2].split(":")[0], int(server.url.rsplit(":", 1)[1])), timeout=30) as half:
        half.sendall(b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        assert b" 408 " in half.recv(1000)


def test_https(start_server, tmp_path):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    server = start_server("--tls-cert", certificate, "--tls-key", key)
    assert server.url.startswith("https://")
    secure = ("--cacert", certificate)
    assert curl(server.url + "/health", None, *secure)[0] == 200
    status, text = curl(server.url + "/v1/chat/completions", {**CHAT, "stream": True}, *secure, "-N")
    assert status == 200
    assert text.rstrip().endswith("data: [DONE]")
    status, text = curl(server.url + "/tokenize", {"prompt": "word " * 200_000}, *secure)
    assert json.loads(text)["count"] >= 200_000
    session = requests.Session()
    for _ in range(3):
        assert session.get(server.url + "/v1/models", timeout=30, verify=certificate).status_code == 200
    port = int(server.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"200" not in plain.recv(1000), "nothing is answered in the clear"
    with socket.create_connection(("127.0.0.1", port), timeout=30):  # says nothing: holds nothing up
        assert server.stop() == 0


def test_a_certificate_needs_its_key(tmp_path):
    import conftest
    run = subprocess.run([conftest.BINARY, "serve", "--port", "0", "--tls-cert", "/nowhere", "--tls-key", "/nowhere"],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 2
    assert "/nowhere" in run.stderr
