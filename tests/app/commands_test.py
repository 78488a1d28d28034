#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands that answer nothing: tokenize, detokenize, render, logits, inspect, quantize, doctor.

  commands_test.py PROGRAM [unittest arguments]
"""
import json
import os
import shutil
import sys
import unittest

from program import GOLDEN, MODEL, ProgramTest, is_text, read_safetensors, relative_difference, transcripts

TOLERANCE = 1e-5  # of the goldens, see their README


class Texts(ProgramTest):
    def test_tokenize_and_detokenize_undo_each_other(self):
        for text in ("Hello, world!\n", "naïve 日本語 🦀", "a<|end_message|>b", " "):
            ids = self.document("tokenize", text)["ids"]
            listed = ",".join(map(str, ids))
            self.assertEqual(self.output("tokenize", text), listed + "\n")
            self.assertEqual(self.document("tokenize", stdin=text)["ids"], ids)
            self.assertEqual(self.document("detokenize", listed), {"text": text})
            self.assertEqual(self.document("detokenize", stdin=json.dumps({"ids": ids})), {"text": text})

    def test_special_spellings_are_ids_unless_ordinary(self):
        self.assertEqual(self.document("tokenize", "<|end_message|>")["ids"], [2014])
        ordinary = self.document("tokenize", "<|end_message|>", "--ordinary")["ids"]
        self.assertGreater(len(ordinary), 1)
        self.assertLess(max(ordinary), 2000)
        self.assertEqual(self.output("detokenize", "2014", "--skip-specials"), "\n")

    def test_bad_texts_and_ids_are_refused(self):
        self.refuse(["tokenize"], "standard input", "UTF-8", stdin=b"a\xffb")
        self.refuse(["tokenize", b"a\xc3"], "UTF-8")
        self.refuse(["detokenize", "1,x"], "'x' is not a token id")
        self.refuse(["detokenize", "2047"], "no token 2047")
        self.refuse(["detokenize"], "there are no ids")


class Render(ProgramTest):
    def test_renders_the_prompt_of_every_text_transcript(self):
        rendered = 0
        for transcript in transcripts():
            if not is_text(transcript) or not transcript["prompt_follows_chat_spec"]:
                continue
            document = self.document("render", stdin=json.dumps(transcript["request"]))
            self.assertEqual(sorted(document), ["ids", "text"])
            self.assertEqual(document["ids"], transcript["prompt_ids"])
            self.assertEqual(self.document("tokenize", document["text"])["ids"], transcript["prompt_ids"])
            rendered += 1
        self.assertGreater(rendered, 80)

    def test_bad_requests_are_refused(self):
        self.refuse(["render"], "request:", stdin=b"{")
        self.refuse(["render"], "UTF-8", stdin=b'{"messages":[{"role":"user","content":"\xff"}]}')
        self.refuse(["render"], "messages[0].role", stdin='{"messages":[{"role":"cat","content":"x"}]}')
        part = {"type": "image_url", "image_url": {"url": "x.png"}}
        self.refuse(["render"], "messages[0].content[0]",
                    stdin=json.dumps({"messages": [{"role": "user", "content": [part]}]}))


class Logits(ProgramTest):
    def compute(self, ids, *words):
        self.write("ids", " ".join(map(str, ids)))
        document = self.document("logits", "--ids-file", self.path("ids"), "--out", self.path("out"), *words)
        tensors = read_safetensors(self.path("out"))
        self.assertEqual(document["tensors"], {name: shape for name, (shape, _) in tensors.items()})
        self.assertEqual(sorted(os.listdir(self.folder)), ["ids", "out"])
        return tensors

    def test_agrees_with_the_golden_logits_hidden_states_and_heads(self):
        golden = read_safetensors(os.path.join(GOLDEN, "golden.safetensors"))
        tensors = self.compute(golden["short.input_ids"][1], "--last", "8", "--hidden", "--mtp")
        self.assertEqual(tensors["logits"][0], [8, 2040])
        self.assertEqual(len(tensors), 1 + 9 + 8)
        expected = {"logits": "short.logits_last"}
        expected.update({f"hidden_{i}": f"short.hidden_{i}" for i in range(9)})
        expected.update({f"mtp{i}.logits": f"short.mtp{i}.logits_end" for i in range(8)})
        for name, theirs in expected.items():
            self.assertLess(relative_difference(tensors[name][1], golden[theirs][1]), TOLERANCE, name)

    def test_reads_nvfp4_checkpoints(self):
        golden = read_safetensors(os.path.join(GOLDEN, "golden.safetensors"))
        tensors = self.compute(golden["nvfp4.short.input_ids"][1], "--last", "8", "--model", MODEL + "-nvfp4")
        expected = golden["nvfp4.short.logits_last"][1]
        self.assertLess(relative_difference(tensors["logits"][1], expected), TOLERANCE)
        rounded = self.compute(golden["nvfp4.short.input_ids"][1], "--last", "8", "--model", MODEL + "-nvfp4",
                               "--nvfp4-activations")
        self.assertGreater(relative_difference(rounded["logits"][1], expected), TOLERANCE)

    def test_gives_the_last_position_by_default(self):
        self.assertEqual(self.compute([1, 2, 3])["logits"][0], [1, 2040])

    def test_replaces_an_older_file(self):
        self.write("out", "old")
        self.assertEqual(self.compute([1, 2, 3])["logits"][0], [1, 2040])

    def test_bad_input_is_refused_and_nothing_is_written(self):
        good = self.write("good", "1 2 3")
        out = self.path("out")
        logits = ["logits", "--out", out, "--ids-file"]
        self.refuse([*logits, self.path("absent")], "--ids-file", "absent", "No such file")
        self.refuse([*logits, self.folder], "--ids-file", "directory")
        self.refuse([*logits, self.write("words", "1 2 three")], "'three' is not a token id")
        self.refuse([*logits, self.write("empty", "")], "there are no ids")
        self.refuse([*logits, self.write("range", "1 2048")], "2048", "vocabulary")
        self.refuse([*logits, self.write("long", "1 " * 32769)], "32769", "32768")
        self.refuse([*logits, good, "--last", "4"], "--last 4", "3 ids")
        self.refuse([*logits, good, "--last", "0"], "--last")
        self.refuse([*logits, good, "--mtp"], "MTP depths need more than 3 tokens")
        self.refuse(["logits", "--ids-file", good, "--out", self.path("no/out")], "--out", "No such file")
        self.refuse(["logits", "--ids-file", good, "--out", self.folder], "--out", "is a folder")
        self.refuse(["logits", "--ids-file", good, "--out", os.path.join(good, "out")], "--out", "is no folder")


class Inspect(ProgramTest):
    def test_describes_both_checkpoints(self):
        plain = self.document("inspect", MODEL)
        self.assertEqual((plain["num_tensors"], plain["files"], plain["problem"]), (336, 2, None))
        self.assertEqual(plain["bytes"], sum(tensor["bytes"] for tensor in plain["tensors"]))
        self.assertEqual(plain["quantised_layers"], [])
        self.assertEqual(self.document("inspect", MODEL + "-nvfp4")["quantised_layers"], [2, 3, 4, 5, 6, 7])
        text = self.output("inspect", MODEL)
        for tensor in plain["tensors"]:
            self.assertIn(tensor["name"], text)

    def test_plans_memory_for_sequences_and_ranks(self):
        one = self.document("inspect", MODEL, "--max-context", "640")["memory"]
        self.assertEqual(one["state_bytes"], 640 * one["bytes_per_token"] + one["window_bytes_per_sequence"])
        self.assertEqual(one["state_bytes"], sum(part["bytes"] for part in one["parts"]))
        self.assertEqual(one["weight_bytes"], self.document("inspect", MODEL)["bytes"])
        two = self.document("inspect", MODEL, "--max-context", "640", "--sequences", "3", "--tensor-parallel",
                            "2")["memory"]
        self.assertEqual(2 * two["bytes_per_token"], one["bytes_per_token"])
        self.assertLess(two["weight_bytes"], 0.6 * one["weight_bytes"])
        self.refuse(["inspect", MODEL, "--max-context", "32769"], "--max-context 32769", "32768")
        self.refuse(["inspect", MODEL, "--tensor-parallel", "3"], "--tensor-parallel 3")

    def test_bad_folders_are_refused(self):
        self.refuse(["inspect", self.path("absent")], "absent")
        self.refuse(["inspect", self.folder], "config.json")

    def test_describes_what_would_not_load_and_says_why(self):
        folder = self.change_config("model", num_hidden_layers=9, local_layer_ids=[0, 1, 2, 4, 5, 6, 8])
        done = self.run_words("inspect", folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"layers", done.stdout)
        self.assertIn(b"model.llm.layers.8", done.stderr)


class Quantize(ProgramTest):
    def test_writes_a_checkpoint_that_loads(self):
        out = self.path("out")
        document = self.document("quantize", MODEL, out, "--format", "nvfp4")
        self.assertEqual(document["quantised_layers"], [2, 3, 4, 5, 6, 7])
        self.assertEqual(document["bytes_after"], self.document("inspect", out)["bytes"])
        self.assertEqual(os.listdir(self.folder), ["out"])
        self.write("ids", "1 2 3")
        self.output("logits", "--model", out, "--ids-file", self.path("ids"), "--out", self.path("logits"))
        self.refuse(["quantize", MODEL, out, "--format", "nvfp4"], "exists already")

    def test_bad_input_is_refused(self):
        self.refuse(["quantize", MODEL, self.path("x"), "--format", "fp8"], "--format fp8", "nvfp4")
        self.refuse(["quantize", MODEL, self.path("x")], "--format")
        self.refuse(["quantize", self.path("absent"), self.path("x"), "--format", "nvfp4"], "absent")
        self.refuse(["quantize", MODEL, self.path("no/x"), "--format", "nvfp4"], "OUT", "No such file")
        self.refuse(["quantize", MODEL + "-nvfp4", self.path("x"), "--format", "nvfp4"], "NVFP4 already")


class Doctor(ProgramTest):
    def test_names_the_machine_and_passes_its_checks(self):
        document = self.document("doctor")
        for key in ("cpu", "instructions", "threads", "memory_bytes", "nvidia_gpus", "backends", "chosen_backend"):
            self.assertIn(key, document)
        self.assertIn(document["chosen_backend"], document["backends"])
        self.assertGreater(len(document["checks"]), 1)
        self.assertTrue(all(check["passed"] for check in document["checks"]), document["checks"])
        self.assertIn("GPU", self.output("doctor"))

    def test_a_broken_model_is_a_finding(self):
        folder = self.change_config("model", eos_token_id=2008)
        done = self.run_words("doctor", "--model", folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"FAILED", done.stdout)


class Models(ProgramTest):
    """Whatever the command, a model that is not in order is refused."""

    def refuse_model(self, folder, *parts):
        self.write("ids", "1 2 3")
        self.refuse(["logits", "--ids-file", self.path("ids"), "--out", self.path("out"), "--model", folder], *parts)

    def test_missing_folders_and_files(self):
        self.refuse_model(self.path("absent"), "absent")
        self.refuse_model(self.copy_model("a", without=("config.json",)), "config.json")
        self.refuse_model(self.copy_model("b", without=("tokenizer.json",)), "tokenizer.json")
        self.refuse_model(self.copy_model("c", without=("model-00001-of-00001.safetensors",)),
                          "model-00001-of-00001.safetensors")

    def test_truncated_files(self):
        name = "model-00001-of-00001.safetensors"
        with open(os.path.join(MODEL, name), "rb") as handle:
            whole = handle.read()
        for i, size in enumerate((0, 5, 1000, len(whole) - 1)):
            folder = self.copy_model(f"model{i}", without=(name,))
            self.write(f"model{i}/{name}", whole[:size])
            self.refuse_model(folder, name)
        self.copy_model("text", without=("tokenizer.json",))
        self.write("text/tokenizer.json", '{"model":')
        self.refuse_model(self.path("text"), "tokenizer.json")

    def test_ids_of_the_configuration_that_the_tokenizer_spells_differently(self):
        self.refuse_model(self.change_config("a", eos_token_id=2008), "eos_token_id is 2008", "2007 in the tokenizer")
        self.refuse_model(self.change_config("b", image_token_id=2016), "image_token_id")
        self.refuse_model(self.change_config("c", unpadded_vocab_size=2000), "valid ones")

    def test_switches_of_the_configuration_that_are_not_known(self):
        self.refuse_model(self.change_config("a", use_gate_bias=False), "use_gate_bias")

    def test_backends_that_this_build_lacks(self):
        self.refuse(["doctor", "--backend", "tpu"], "--backend tpu", "reference")
        self.write("ids", "1 2 3")
        self.refuse(["logits", "--ids-file", self.path("ids"), "--out", self.path("out"), "--backend", "tpu"],
                    "--backend tpu", "reference")

    def test_the_shipped_model_is_found_wherever_the_program_lies(self):
        copy = self.path("inkstone")
        shutil.copy(self.program, copy)
        self.assertEqual(self.run_words("tokenize", "a", program=copy).returncode, 0)
        os.mkdir(self.path("models"))
        self.copy_model("models/inkling-mini", without=("tokenizer.json",))
        self.assertIn(b"tokenizer.json", self.run_words("tokenize", "a", program=copy).stderr)


if __name__ == "__main__":
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
