#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public implementation (transformers) in BF16 on the same card, over the items that our backend answers.

Prints, per set of tests/data/evals without media and for the recorded transcripts, how many items are answered
otherwise than by the fp32 reference: by transformers, and beside it by this engine where its results are given.
Answers of transformers are compared by feeding them: greedy decoding gives an answer exactly when every fed
token is the most likely one, so one pass per item is enough.

    inkstone eval tests/data/evals SETS --backend cuda --json >eval.json
    gpu_test --gtest_filter='OnDevice.Transcripts*' >transcripts.txt
    tools/gpu/peer.py --inkstone build/cuda-portable/inkstone --eval eval.json --transcripts-log transcripts.txt

--control N passes every Nth item through the same weights in float32 first: there nothing may differ. --sets
prints the sets and ends. transformers 5.17.0 norms the embedding twice in its multimodal class; here its
language model is called by itself, which norms once.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import time

MEDIA_IDS = {2016, 2017}
TEXT_SETS = ["copying", "facts", "reading", "reasoning", "tool_answers", "tool_calls",
             "needle_1k", "needle_2k", "needle_4k", "needle_8k", "needle_16k"]


def rendered(inkstone, model, request):
    # A bundle's libraries are for its own programs alone.
    libraries = {"LD_LIBRARY_PATH": str(pathlib.Path(inkstone).parent / "lib")}
    done = subprocess.run([inkstone, "render", "--model", model], input=json.dumps(request), text=True,
                          capture_output=True, timeout=60, env=os.environ | libraries)
    if done.returncode != 0:
        raise SystemExit(f"{inkstone} render: exit {done.returncode}, {done.stderr.strip()[:300]}")
    return json.loads(done.stdout)["ids"]


def items_of(args):
    """(set, id, prompt ids, answer ids) of everything without media, transcripts first."""
    found = []
    for index, item in enumerate(json.loads(pathlib.Path(args.transcripts).read_text())):
        if not MEDIA_IDS & set(item["prompt_ids"]):
            found.append(("transcripts", index, item["prompt_ids"], item["greedy_ids"]))
    folder = pathlib.Path(args.evals)
    lines = [(name, json.loads(line)) for name in TEXT_SETS
             for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        prompts = list(pool.map(lambda one: rendered(args.inkstone, args.model, one[1]["request"]), lines))
    found += [(name, item["id"], prompt, item["reference"]["ids"])
              for (name, item), prompt in zip(lines, prompts)]
    return found


def load(args, dtype):
    """A function that says whether transformers answers a prompt otherwise."""
    import torch
    from transformers import InklingConfig, InklingForConditionalGeneration
    config = InklingConfig.from_pretrained(args.model)
    # Its configuration class reads the experts' width under another name than checkpoints write it.
    written = json.loads((pathlib.Path(args.model) / "config.json").read_text())["text_config"]
    config.text_config.moe_intermediate_size = written["intermediate_size"]
    model = InklingForConditionalGeneration.from_pretrained(
        args.model, config=config, dtype=getattr(torch, dtype), attn_implementation="eager",
        experts_implementation="eager").to(args.device).eval()
    text = model.config.text_config

    @torch.inference_mode()
    def differs(prompt, answer):
        ids = torch.tensor([prompt + answer[:-1]], device=args.device)
        hidden = model.model.language_model(input_ids=ids, use_cache=False).last_hidden_state
        hidden = hidden[0, len(prompt) - 1:] / text.logits_mup_width_multiplier
        best = model.lm_head(hidden)[:, :text.unpadded_vocab_size].argmax(-1)
        return best.tolist() != answer

    return differs


def ours(args):
    """Per set, the items that this engine answered otherwise."""
    differing = {}
    if args.eval and pathlib.Path(args.eval).read_text().startswith("{"):
        for report in json.loads(pathlib.Path(args.eval).read_text())["sets"]:
            differing[report["name"]] = [item["id"] for item in report["differences"]]
    if args.transcripts_log:
        log = pathlib.Path(args.transcripts_log).read_text()
        if re.search(r"transcripts reproduced", log):
            differing["transcripts"] = [int(i) for i in re.findall(r"transcript (\d+) differs", log)]
    return differing


def control(args, items):
    """Every Nth item in float32: what differs is a fault of this script."""
    chosen = items[::args.control]
    differs = load(args, "float32")
    wrong = [(name, identity) for name, identity, prompt, answer in chosen if differs(prompt, answer)]
    print(f"control: transformers float32, {len(wrong)} of {len(chosen)} differ {wrong or ''}", flush=True)


def compare(args, items, begin):
    """A line a set, printed when the set is done: what is there counts even if time runs out."""
    engine = ours(args)
    differs = load(args, "bfloat16")
    total = [0, 0, 0]
    print(f"{'set':14} {'items':>5} {'inkstone':>8} {'transformers':>12}  differ from fp32, both in BF16", flush=True)
    for name in dict.fromkeys(item[0] for item in items):
        of_set = [item for item in items if item[0] == name]
        theirs = [identity for _, identity, prompt, answer in of_set if differs(prompt, answer)]
        mine = engine.get(name)
        total = [total[0] + len(of_set), total[1] + len(mine or []), total[2] + len(theirs)]
        print(f"{name:14} {len(of_set):5} {'-' if mine is None else len(mine):>8} {len(theirs):12}  "
              f"inkstone {mine}, transformers {theirs}, after {time.time() - begin:.0f} s", flush=True)
    print(f"{'all':14} {total[0]:5} {total[1]:8} {total[2]:12}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inkstone")
    parser.add_argument("--model", default="models/inkling-mini")
    parser.add_argument("--evals", default="tests/data/evals")
    parser.add_argument("--transcripts", default="tests/data/golden/transcripts.json")
    parser.add_argument("--eval", help="what inkstone eval --json printed")
    parser.add_argument("--transcripts-log", help="what gpu_test printed")
    parser.add_argument("--control", type=int, default=8)
    parser.add_argument("--every", type=int, default=1, help="of the items, for a trial on a CPU")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sets", action="store_true")
    args = parser.parse_args()
    if args.sets:
        print(" ".join(TEXT_SETS))
        return
    begin = time.time()
    items = items_of(args)[::args.every]
    print(f"{len(items)} items after {time.time() - begin:.0f} s", flush=True)
    control(args, items)
    compare(args, items, begin)
    print(f"done after {time.time() - begin:.0f} s")


if __name__ == "__main__":
    main()
