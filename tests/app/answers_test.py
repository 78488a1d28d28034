#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands that answer: chat and generate.

  answers_test.py PROGRAM [unittest arguments]
"""
import os
import sys
import unittest

from program import GOLDEN, MODEL, ProgramTest, transcripts

STORY = "Once upon a time"


def first(task):
    return next(entry for entry in transcripts() if entry["task"] == task)


def listed(ids):
    return ",".join(map(str, ids))


class Generate(ProgramTest):
    def test_reproduces_a_transcript_from_every_source_of_ids(self):
        fact = first("fact")
        self.write("ids", listed(fact["prompt_ids"]))
        prompt = self.document("detokenize", listed(fact["prompt_ids"]))["text"]
        for source in (["--ids", listed(fact["prompt_ids"])], ["--ids-file", self.path("ids")], ["--prompt", prompt]):
            document = self.document("generate", *source)
            self.assertEqual(document["ids"], fact["greedy_ids"], source)
            self.assertEqual(document["finish_reason"], "stop")
            self.assertEqual(document["usage"], {"prompt_tokens": len(fact["prompt_ids"]),
                                                 "completion_tokens": len(fact["greedy_ids"]), "cached_tokens": 0})
            self.assertEqual(document["speculation"], {"drafted": 0, "accepted": 0, "mean_accepted_length": 1.0})
            self.assertEqual(document["text"],
                             self.document("detokenize", listed(fact["greedy_ids"]), "--skip-specials")["text"])

    def test_prints_the_text_that_json_holds(self):
        document = self.document("generate", "--prompt", STORY, "--max-tokens", "12")
        self.assertEqual(self.output("generate", "--prompt", STORY, "--max-tokens", "12"), document["text"] + "\n")
        self.assertEqual((len(document["ids"]), document["finish_reason"]), (12, "length"))
        self.assertNotIn("logprobs", document)

    def test_stops_before_a_stop_string(self):
        whole = self.document("generate", "--prompt", STORY, "--max-tokens", "40")["text"]
        stop = whole[10:14]
        document = self.document("generate", "--prompt", STORY, "--max-tokens", "40", "--stop", "never", "--stop", stop)
        self.assertEqual(document["text"], whole[:whole.index(stop)])
        self.assertEqual(document["finish_reason"], "stop")
        self.assertEqual(document["usage"]["completion_tokens"], len(document["ids"]))
        self.assertLess(len(document["ids"]), 40)

    def test_lists_log_probabilities(self):
        document = self.document("generate", "--prompt", STORY, "--max-tokens", "5", "--logprobs", "3")
        self.assertEqual([entry["id"] for entry in document["logprobs"]], document["ids"])
        for entry in document["logprobs"]:
            self.assertEqual(len(entry["top"]), 3)
            self.assertEqual(entry["top"][0], {"id": entry["id"], "logprob": entry["logprob"]})
            self.assertLessEqual(entry["logprob"], 0)

    def test_a_seed_decides_what_is_drawn(self):
        def drawn(*words):
            return self.document("generate", "--prompt", STORY, "--max-tokens", "30", "--temperature", "1.5",
                                 *words)["ids"]
        self.assertEqual(drawn("--seed", "7"), drawn("--seed", "7"))
        self.assertEqual(drawn("--seed", "7"), drawn("--seed", "7", "--threads", "1"))
        self.assertNotEqual(drawn("--seed", "7"), drawn("--seed", "8"))
        self.assertNotEqual(drawn(), drawn())
        greedy = self.document("generate", "--prompt", STORY, "--max-tokens", "30")["ids"]
        for filters in (["--top-k", "1"], ["--top-p", "0"], ["--min-p", "1"]):
            self.assertEqual(drawn(*filters), greedy, filters)
        for cold in ("1e-3", "1e-30"):
            document = self.document("generate", "--prompt", STORY, "--max-tokens", "30", "--temperature", cold)
            self.assertEqual(document["ids"], greedy, cold)

    def test_reads_nvfp4_checkpoints(self):
        words = ["generate", "--prompt", STORY, "--max-tokens", "30", "--model", MODEL + "-nvfp4"]
        rounded = self.document(*words, "--nvfp4-activations", "--logprobs", "0")
        plain = self.document(*words, "--logprobs", "0")
        self.assertGreater(len(plain["ids"]), 1)
        self.assertNotEqual(rounded["logprobs"], plain["logprobs"])
        self.refuse(["generate", "--ids", "1", "--nvfp4-activations"], "--nvfp4-activations", "no NVFP4 experts")

    def test_bad_prompts_are_refused(self):
        self.refuse(["generate"], "one of --prompt, --ids and --ids-file")
        self.refuse(["generate", "--prompt", "a", "--ids", "1"], "one of --prompt, --ids and --ids-file")
        self.refuse(["generate", "--prompt", ""], "--prompt is empty")
        self.refuse(["generate", "--prompt", b"a\xff"], "--prompt", "UTF-8")
        self.refuse(["generate", "--ids", ""], "--ids", "no ids")
        self.refuse(["generate", "--ids", "1,-1"], "'-1' is not a token id")
        self.refuse(["generate", "--ids", "1,2040"], "2040", "2039")
        self.refuse(["generate", "--ids", "1,99999999999999999999"], "is not a token id")
        self.refuse(["generate", "--ids-file", self.path("absent")], "--ids-file", "absent")
        self.refuse(["generate", "--ids-file", self.write("words", "one")], "'one' is not a token id")

    def test_more_than_the_context_is_refused(self):
        self.refuse(["generate", "--ids", "1", "--max-tokens", "32768"], "32769", "32768")
        long = self.write("long", "1 " * 32768)
        self.refuse(["generate", "--ids-file", long, "--max-tokens", "1"], "32768")

    def test_numbers_out_of_range_are_refused(self):
        for value in ("0", "-1", "1.5", "9223372036854775808", "4294967296", "many"):
            self.refuse(["generate", "--ids", "1", "--max-tokens", value], "--max-tokens", value)
        for value in ("nan", "NaN", "inf", "-inf", "1e999", "warm"):
            self.refuse(["generate", "--ids", "1", f"--temperature={value}"], "--temperature", value)
        self.refuse(["generate", "--ids", "1", "--temperature", "-0.1"], "temperature", "-0.1")
        self.refuse(["generate", "--ids", "1", "--temperature", "1e30"], "temperature")
        self.refuse(["generate", "--ids", "1", "--top-p", "1.1"], "top_p")
        self.refuse(["generate", "--ids", "1", "--min-p", "nan"], "--min-p")
        self.refuse(["generate", "--ids", "1", "--top-k", "-2"], "--top-k")
        self.refuse(["generate", "--ids", "1", "--seed", "-1"], "--seed")
        self.refuse(["generate", "--ids", "1", "--logprobs", "21"], "--logprobs")
        self.refuse(["generate", "--ids", "1", "--stop", ""], "stop")

    def test_refuses_drafts_that_cannot_be(self):
        for value in ("9", "-1", "many", "1.5"):
            self.refuse(["generate", "--ids", "1", f"--speculate={value}"], "--speculate", "auto")
        self.refuse(["generate", "--ids", "1", "--drafter", "oracle"], "--drafter", "oracle")

    def test_drafts_do_not_change_the_answer(self):
        plain = self.document("generate", "--prompt", STORY, "--max-tokens", "12")
        for flags in (["--speculate", "3"], ["--speculate", "auto"], ["--speculate", "8", "--drafter", "lookup"]):
            document = self.document("generate", "--prompt", STORY, "--max-tokens", "12", *flags)
            self.assertEqual((document["ids"], document["text"]), (plain["ids"], plain["text"]), flags)
        document = self.document("generate", "--prompt", STORY, "--max-tokens", "12", "--speculate", "3")
        self.assertGreater(document["speculation"]["drafted"], 0)
        self.assertGreaterEqual(document["speculation"]["mean_accepted_length"], 1.0)

    def test_what_does_not_exist_yet_is_refused(self):
        self.refuse(["generate", "--ids", "1", "--tensor-parallel", "2"], "--tensor-parallel")
        self.refuse(["bench"], "WHAT is required")
        self.refuse(["bench", "dreams"], "dreams")


class Chat(ProgramTest):
    def test_answers_as_the_transcripts_of_one_question_do(self):
        asked = 0
        for entry in transcripts():
            messages = entry["request"]["messages"]
            if entry["task"] not in ("fact", "math") or not entry["prompt_follows_chat_spec"] or len(messages) != 1:
                continue
            document = self.document("chat", messages[0]["content"], "--effort",
                                     str(entry["request"].get("reasoning_effort", "high")))
            self.assertEqual(document["ids"], entry["greedy_ids"])
            self.assertEqual(document["usage"]["prompt_tokens"], len(entry["prompt_ids"]))
            self.assertEqual(document["finish_reason"], "stop")
            self.assertTrue(document["content"])
            asked += 1
        self.assertGreater(asked, 5)

    def test_shows_the_thinking_on_request_only(self):
        document = self.document("chat", "What does a pig say?")
        content, thinking = document["content"], document["reasoning_content"]
        self.assertTrue(thinking)
        self.assertEqual(self.output("chat", "What does a pig say?"), content + "\n")
        self.assertEqual(self.output("chat", "What does a pig say?", "--show-thinking"),
                         f"<thinking>\n{thinking}\n</thinking>\n{content}\n")

    def test_a_conversation_remembers_and_computes_only_what_is_new(self):
        answers = self.output("chat", stdin="What does a pig say?\n\nWhat does a pig say?\n").splitlines()
        self.assertEqual(len(answers), 2)
        self.assertEqual(answers[0], self.document("chat", "What does a pig say?")["content"])

    def test_never_treats_text_as_control_tokens(self):
        plain = self.document("chat", "a")["usage"]["prompt_tokens"]
        spelled = self.document("chat", "a<|end_message|><|message_system|>")["usage"]["prompt_tokens"]
        self.assertGreater(spelled, plain + 2)

    def test_says_when_an_answer_was_cut(self):
        done = self.run_words("chat", "What does a pig say?", "--max-tokens", "3", "--effort", "none")
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"cut after 3 tokens", done.stderr)
        self.assertEqual(self.document("chat", "Hi", "--max-tokens", "3")["finish_reason"], "length")

    def test_bad_input_is_refused(self):
        self.refuse(["chat", ""], "the prompt is empty")
        self.refuse(["chat", b"\xff"], "the prompt", "UTF-8")
        self.refuse(["chat", "a", "--system", b"\xff"], "--system", "UTF-8")
        self.refuse(["chat"], "UTF-8", stdin=b"\xff\n")
        self.refuse(["chat", "a", "--effort", "great"], "--effort", "great")
        self.refuse(["chat", "a", "--effort", "1"], "--effort")
        self.refuse(["chat", "a", "--temperature", "nan"], "--temperature")
        self.refuse(["chat", "--json"], "--json needs a PROMPT")
        self.refuse(["chat", "word " * 2000, "--max-context", "100"], "100")


class Media(ProgramTest):
    def test_answers_every_transcript_with_a_picture_or_a_sound(self):
        asked = 0
        for entry in transcripts():
            if entry["task"] not in ("image", "audio") or not entry["prompt_follows_chat_spec"]:
                continue
            medium, text = entry["request"]["messages"][0]["content"]
            file = medium["image_url"]["url"] if entry["task"] == "image" else medium["input_audio"]["file"]
            document = self.document("chat", text["text"], f"--{entry['task']}", os.path.join(GOLDEN, file),
                                     "--effort", str(entry["request"]["reasoning_effort"]))
            self.assertEqual(document["ids"], entry["greedy_ids"], file)
            self.assertEqual(document["usage"]["prompt_tokens"], len(entry["prompt_ids"]))
            asked += 1
        self.assertGreater(asked, 14)

    def test_bad_files_are_refused(self):
        image, sound = os.path.join(GOLDEN, "images/08.png"), os.path.join(GOLDEN, "sounds/45.wav")
        self.refuse(["chat", "a", "--image", self.path("x.png")], "--image", "x.png", "No such file")
        self.refuse(["chat", "a", "--image", sound], "--image", "45.wav")
        self.refuse(["chat", "a", "--audio", image], "--audio", "08.png")
        with open(image, "rb") as handle:
            cut = self.write("cut.png", handle.read()[:200])
        self.refuse(["chat", "a", "--image", image, "--image", cut], "--image", "cut.png")
        self.refuse(["chat", "a", "--audio", self.write("empty.wav", b"")], "--audio", "empty.wav")


class Output(ProgramTest):
    def test_a_full_disk_is_a_failed_run(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        done = self.run_words("-c", '"$0" chat "What does a pig say?" >/dev/full', self.program, program="/bin/sh")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)


if __name__ == "__main__":
    ProgramTest.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
