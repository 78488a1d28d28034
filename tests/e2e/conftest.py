# SPDX-License-Identifier: Apache-2.0
"""One server for all tests: the shipped mini on a free loopback port, ended by SIGTERM, which must end it cleanly."""
import os
import pathlib
import re
import signal
import subprocess

import pytest
import requests

BINARY = os.environ.get("INKSTONE_BINARY", "build/release/inkstone")
ARTEFACTS = pathlib.Path(os.environ.get("INKSTONE_ARTEFACTS", "build/e2e/artefacts"))


class Server:
    def __init__(self, *options, env=None):
        self.log = open(ARTEFACTS / "server.log", "ab")
        self.process = subprocess.Popen([BINARY, "serve", "--port", "0", *options], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        match = re.search(r"https?://\S+", line)
        assert match, f"the server did not start: {line!r}"
        self.url = match.group(0)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.log.close()
        return code

    def post(self, path, body, **arguments):
        return requests.post(self.url + path, json=body, timeout=120, **arguments)

    def metric(self, name):
        text = requests.get(self.url + "/metrics", timeout=30).text
        match = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
        assert match, f"no metric {name}"
        return float(match.group(1))


@pytest.fixture(scope="session")
def server():
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    running = Server("--max-queue", "512")
    yield running
    assert running.stop() == 0, "SIGTERM ends the server with success"


@pytest.fixture
def start_server():
    """For tests that need options of their own."""
    started = []

    def start(*options, env=None):
        started.append(Server(*options, env=env))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.stop()
