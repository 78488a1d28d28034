#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inkstone eval on a few items of each set.

  eval_command_test.py PROGRAM [unittest arguments]
"""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "app"))
from program import ROOT, ProgramTest  # noqa: E402

EVALS = os.path.join(ROOT, "tests", "data", "evals")
TEXT_SETS = ("copying", "facts", "needle_1k", "reading", "reasoning", "tool_answers", "tool_calls")


def items_of(name, count):
    with open(os.path.join(EVALS, name + ".jsonl"), encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][:count]


class Eval(ProgramTest):
    def make_sets(self, count, names=TEXT_SETS):
        """Folder and summary of the first items of each set; needles are long: one."""
        sets = {name: items_of(name, 1 if name.startswith("needle") else count) for name in names}
        return self.write_sets(sets)

    def write_sets(self, sets):
        summary = {}
        os.makedirs(self.path("sets"), exist_ok=True)
        for name, items in sets.items():
            self.write(f"sets/{name}.jsonl", "".join(json.dumps(item) + "\n" for item in items))
            summary[name] = {"items": len(items),
                             "reference_correct": sum(item["reference"]["correct"] for item in items)}
        return self.path("sets"), self.write("summary.json", json.dumps(summary))

    def test_answers_every_item_as_the_reference_does(self):
        folder, summary = self.make_sets(4)
        report = self.document("eval", folder, "--compare", summary)
        self.assertEqual([entry["name"] for entry in report["sets"]], list(TEXT_SETS))
        for entry in report["sets"]:
            self.assertEqual(entry["differences"], [], entry["name"])
            self.assertEqual(entry["compared"], entry["items"])
            self.assertEqual(entry["correct"], entry["reference_correct"])
            low, high = entry["interval_95"]
            self.assertTrue(low <= entry["accuracy"] <= high, entry)
        self.assertEqual(report["total"]["items"], 25)
        self.assertEqual(report["prefix_reuse"], True)

    def test_answers_are_the_same_one_at_a_time_and_without_reuse(self):
        folder, summary = self.make_sets(2)
        lines = self.output("eval", folder, "reasoning", "tool_calls", "--compare", summary, "--requests", "1",
                            "--no-prefix-reuse").splitlines()
        self.assertEqual(len(lines), 4, lines)  # heading, two sets, all
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

    def test_mistakes_are_refused(self):
        folder, _ = self.make_sets(1, names=("facts",))
        self.refuse(["eval", folder, "poems"], "no set 'poems'", "facts")
        self.refuse(["eval", self.path("none")], "none cannot be read")
        self.refuse(["eval", folder, "--requests", "0"], "--requests")
        self.write("sets/facts.jsonl", "{}\n")
        self.refuse(["eval", folder], "facts.jsonl:1.id")


if __name__ == "__main__":
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
