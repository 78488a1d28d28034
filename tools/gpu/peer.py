#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public implementation (transformers) in BF16 on the same card, over the items that our backend answers.

Prints, per set of tests/data/evals without media and for the recorded transcripts, how many items transformers
answers otherwise than the fp32 reference does. An answer is compared by feeding it: greedy decoding gives it
exactly when every fed token is the most likely one, so one pass per item is enough.

    tools/gpu/peer.py --inkstone build/cuda-portable/inkstone [--dtype float32] [--out FILE]

With float32 nothing may differ: the control of this script. transformers 5.17.0 norms the embedding twice in its
multimodal class; here its language model is called by itself, which norms once.
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import time

MEDIA_IDS = {2016, 2017}
TEXT_SETS = ["copying", "facts", "reading", "reasoning", "tool_answers", "tool_calls",
             "needle_1k", "needle_2k", "needle_4k", "needle_8k", "needle_16k"]


def rendered(inkstone, model, request):
    done = subprocess.run([inkstone, "render", "--model", model], input=json.dumps(request), text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout)["ids"]


def items_of(args):
    """(set, id, prompt ids, answer ids) of everything without media."""
    folder = pathlib.Path(args.evals)
    lines = [(name, json.loads(line)) for name in TEXT_SETS
             for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        prompts = list(pool.map(lambda one: rendered(args.inkstone, args.model, one[1]["request"]), lines))
    found = [(name, item["id"], prompt, item["reference"]["ids"])
             for (name, item), prompt in zip(lines, prompts)]
    for index, item in enumerate(json.loads(pathlib.Path(args.transcripts).read_text())):
        if not MEDIA_IDS & set(item["prompt_ids"]):
            found.append(("transcripts", index, item["prompt_ids"], item["greedy_ids"]))
    return found


def load(args):
    import torch
    from transformers import InklingConfig, InklingForConditionalGeneration
    config = InklingConfig.from_pretrained(args.model)
    # Its configuration class reads the experts' width under another name than checkpoints write it.
    written = json.loads((pathlib.Path(args.model) / "config.json").read_text())["text_config"]
    config.text_config.moe_intermediate_size = written["intermediate_size"]
    model = InklingForConditionalGeneration.from_pretrained(
        args.model, config=config, dtype=getattr(torch, args.dtype), attn_implementation="eager",
        experts_implementation="eager").to("cuda").eval()
    text = model.config.text_config

    @torch.inference_mode()
    def differs(prompt, answer):
        ids = torch.tensor([prompt + answer[:-1]], device="cuda")
        hidden = model.model.language_model(input_ids=ids, use_cache=False).last_hidden_state
        hidden = hidden[0, len(prompt) - 1:] / text.logits_mup_width_multiplier
        best = model.lm_head(hidden)[:, :text.unpadded_vocab_size].argmax(-1)
        return best.tolist() != answer

    return differs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inkstone", required=True)
    parser.add_argument("--model", default="models/inkling-mini")
    parser.add_argument("--evals", default="tests/data/evals")
    parser.add_argument("--transcripts", default="tests/data/golden/transcripts.json")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--out")
    args = parser.parse_args()
    begin = time.time()
    items = items_of(args)
    print(f"{len(items)} items after {time.time() - begin:.0f} s", flush=True)
    differs = load(args)
    print(f"model loaded after {time.time() - begin:.0f} s", flush=True)
    counts, missed = {}, {}
    for name, identity, prompt, answer in items:
        counts[name] = counts.get(name, 0) + 1
        if differs(prompt, answer):
            missed.setdefault(name, []).append(identity)
    for name, count in counts.items():
        other = missed.get(name, [])
        print(f"transformers {args.dtype} {name}: {len(other)} of {count} differ {other}", flush=True)
    print(f"done after {time.time() - begin:.0f} s")
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(missed))


if __name__ == "__main__":
    main()
