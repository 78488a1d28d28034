# SPDX-License-Identifier: Apache-2.0
"""The smallest streaming app of uvicorn and Starlette, for comparison: the same events, made without any work.
  peer.py PORT"""
import json
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

HEAD = {"id": "chatcmpl-0123456789abcdefghijklmn", "object": "chat.completion.chunk", "created": 0, "model": "stub"}


def event(delta, finish=None):
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return "data: " + json.dumps({**HEAD, "choices": [choice]}) .replace('": ', '":') + "\n\n"


async def chat(request):
    body = await request.json()

    async def stream():
        yield event({"role": "assistant", "content": ""})
        for _ in range(body["max_tokens"]):
            yield event({"content": "("})
        yield event({}, "length")
        yield "data: [DONE]\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
