#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inkstone eval on a few items of each set.

  eval_command_test.py PROGRAM [unittest arguments]
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from program import ROOT, ProgramTest  # noqa: E402

EVALS = os.path.join(ROOT, "tests", "data", "evals")
SETS = ("audio", "copying", "facts", "needle_1k", "reading", "reasoning", "tool_answers", "tool_calls", "vision")


def items_of(name, count):
    with open(os.path.join(EVALS, name + ".jsonl"), encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][:count]


class Eval(ProgramTest):
    def make_sets(self, count, names=SETS):
        """Folder and summary of the first items of each set; needles are long: one."""
        sets = {name: items_of(name, 1 if name.startswith("needle") else count) for name in names}
        return self.write_sets(sets)

    def write_sets(self, sets):
        summary = {}
        os.makedirs(self.path("sets"), exist_ok=True)
        for media in ("images", "sounds"):
            if not os.path.exists(self.path("sets/" + media)):
                os.symlink(os.path.join(EVALS, media), self.path("sets/" + media))
        for name, items in sets.items():
            self.write(f"sets/{name}.jsonl", "".join(json.dumps(item) + "\n" for item in items))
            summary[name] = {"items": len(items),
                             "reference_correct": sum(item["reference"]["correct"] for item in items)}
        return self.path("sets"), self.write("summary.json", json.dumps(summary))

    def test_answers_every_item_as_the_reference_does(self):
        folder, summary = self.make_sets(4)
        report = self.document("eval", folder, "--compare", summary)
        self.assertEqual([entry["name"] for entry in report["sets"]], list(SETS))
        for entry in report["sets"]:
            self.assertEqual(entry["differences"], [], entry["name"])
            self.assertEqual(entry["compared"], entry["items"])
            self.assertEqual(entry["correct"], entry["reference_correct"])
            low, high = entry["interval_95"]
            self.assertTrue(low <= entry["accuracy"] <= high, entry)
        self.assertEqual(report["total"]["items"], 33)
        self.assertEqual(report["prefix_reuse"], True)

    def test_answers_are_the_same_one_at_a_time_without_reuse_and_with_drafts(self):
        folder, summary = self.make_sets(2)
        for words in (("--requests", "1", "--no-prefix-reuse"), ("--requests", "100", "--speculate", "8"),
                      ("--backend", "reference", "--speculate", "2", "--drafter", "lookup")):
            lines = self.output("eval", folder, "reasoning", "tool_calls", "vision", "--compare", summary,
                                *words).splitlines()
            self.assertEqual(len(lines), 5, lines)  # heading, three sets, all
            self.assertTrue(all(line.endswith(" 0") for line in lines[1:]), lines)

    def test_an_item_that_differs_is_named_and_fails_the_run(self):
        facts = items_of("facts", 2)
        facts[1]["reference"]["ids"][3] += 1
        facts[1]["reference"]["content"] += "!"
        folder, summary = self.write_sets({"facts": facts})
        done = self.run_words("eval", folder, "--compare", summary)
        self.assertEqual(done.returncode, 1)
        self.assertIn("unlike the reference", done.stderr.decode())
        table = done.stdout.decode().splitlines()
        self.assertEqual(table[1].split()[-1], "1")
        self.assertTrue(table[2].startswith("facts facts-001: ids, content differ, ids from index 3"), table)
        self.assertEqual(self.run_words("eval", folder).returncode, 0)  # not asked to compare

    def test_a_second_run_continues_where_the_first_one_ended(self):
        folder, summary = self.make_sets(3, names=("facts", "reading"))
        results = self.path("results.jsonl")
        words = ("eval", folder, "--results", results, "--compare", summary)
        self.output(*words)
        with open(results, encoding="utf-8") as handle:
            lines = handle.readlines()
        self.assertEqual(len(lines), 7)  # the settings and six answers
        kept = json.loads(lines[1])
        kept["answer"]["content"] = "changed"
        self.write("results.jsonl", lines[0] + json.dumps(kept) + "\n" + "".join(lines[2:4]) + lines[4][:20])
        done = self.run_words(*words, "--json")
        differences = [entry["differences"] for entry in json.loads(done.stdout)["sets"]]
        self.assertEqual([item["fields"] for item in differences[0]], [["content"]])  # taken from the file
        self.assertEqual(differences[1], [])
        with open(results, encoding="utf-8") as handle:
            self.assertEqual(handle.readlines()[4:], lines[4:])  # only the rest was computed
        self.refuse(words + ("--max-tokens", "9"), "other settings")

    def test_sets_that_cannot_be_asked_are_named(self):
        item = items_of("facts", 1)[0]
        item["request"]["messages"][0]["content"] = "long " * 40000
        folder, _ = self.write_sets({"facts": [item]})
        line = self.output("eval", folder).splitlines()[1]
        self.assertRegex(line, r"^facts +not run: facts-000 needs \d+ tokens, the model has a context of 32768$")

    def test_a_checkpoint_without_towers_is_not_asked_about_media(self):
        folder, _ = self.make_sets(1, names=("audio", "facts"))
        model = self.change_config("deaf", audio_config=None)
        lines = self.output("eval", folder, "--model", model).splitlines()
        self.assertRegex(lines[1], "^audio +not run: audio-000: .*does not take sounds")
        self.assertRegex(lines[2], "^facts +1 ")

    def test_a_server_is_asked_instead(self):
        folder, summary = self.make_sets(3, names=("audio", "facts", "reasoning", "tool_calls", "vision"))
        serving = subprocess.Popen([self.program, "serve", "--port", "0", "--speculate", "8"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, cwd=self.folder)
        self.addCleanup(serving.wait)
        self.addCleanup(serving.stdout.close)
        self.addCleanup(serving.kill)
        url = serving.stdout.readline().decode().split()[-1]
        report = self.document("eval", folder, "--server", url + "/v1", "--compare", summary)
        self.assertEqual(report["model"], "inkling-mini")
        self.assertEqual((report["total"]["items"], report["total"]["differing"]), (15, 0))
        serving.kill()
        serving.wait()
        self.refuse(["eval", folder, "--server", url], url, code=1)

    def test_needles_have_the_length_that_was_asked_for(self):
        folder = self.path("needles")
        made = self.document("eval", folder, "--needle", "150,1k", "--depths", "0,100", "--count", "2", "--seed", "7")
        self.assertEqual([entry["items"] for entry in made["sets"]], [4, 4])
        with open(os.path.join(folder, "needle_150.jsonl"), encoding="utf-8") as handle:
            first = handle.read()
        for line in first.splitlines():
            item = json.loads(line)
            rendered = self.document("render", stdin=json.dumps(item["request"]))
            self.assertEqual(len(rendered["ids"]), 150)
        report = self.document("eval", folder)
        self.assertEqual(report["total"]["items"], 8)
        self.assertEqual(report["total"]["correct"], 8)
        self.document("eval", folder, "--needle", "150", "--depths", "0,100", "--count", "2", "--seed", "7")
        with open(os.path.join(folder, "needle_150.jsonl"), encoding="utf-8") as handle:
            self.assertEqual(handle.read(), first)

    def test_a_suite_is_adapted_and_run(self):
        self.write("exam.jsonl", json.dumps({"id": "e-1", "question": "What is the capital of China?", "image": "",
                                             "answer": "The capital of China is Beijing", "answer_type": "exactMatch"})
                   + "\n" + json.dumps({"id": "e-2", "question": "Why?"}) + "\n")
        folder = self.path("suite")
        lines = self.output("eval", folder, "--adapt", "hle", "--from", self.path("exam.jsonl")).splitlines()
        self.assertEqual(lines[0], f"{folder}/exam.jsonl: 1 items, 1 rows left out")
        self.assertEqual(lines[1], "e-2: answer is missing")
        self.assertEqual(self.document("eval", folder)["total"]["items"], 1)

    def test_mistakes_are_refused(self):
        folder, _ = self.make_sets(1, names=("facts",))
        self.refuse(["eval", folder, "poems"], "no set 'poems'", "facts")
        self.refuse(["eval", self.path("none")], "none cannot be read")
        self.refuse(["eval", folder, "--requests", "0"], "--requests")
        self.refuse(["eval", folder, "--needle", "1x"], "'1x' is no length")
        self.refuse(["eval", folder, "--needle", "4"], "no text makes a prompt of 4 tokens")
        self.refuse(["eval", folder, "--needle", "1k", "--depths", "101"], "--depths")
        self.refuse(["eval", folder, "--adapt", "hle"], "--from")
        self.refuse(["eval", folder, "--adapt", "mmlu", "--from", "x"], "no adapter 'mmlu'")
        self.write("sets/facts.jsonl", "{}\n")
        self.refuse(["eval", folder], "facts.jsonl:1.id")


if __name__ == "__main__":
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
