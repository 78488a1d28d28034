# SPDX-License-Identifier: Apache-2.0
"""tools/check_readme.py runs what a README shows, and finds each way in which it can be wrong."""
import unittest

from source_fixture import TreeTest

import check_readme


class CheckReadme(TreeTest):
    def check(self, text):
        self.write("README.md", text)
        errors, self.ran, self.not_run = check_readme.check(self.root)
        return errors

    def test_true_examples_pass(self):
        text = ("# A\n\n```console\n$ echo one; echo two >&2\none\ntwo\n\n$ echo a \\\n  b\na b\n$ true\n```\n"
                "```bash\nexit 1\n```\n")
        self.assertEqual(self.check(text), [])
        self.assertEqual(self.ran, 3)

    def test_another_output_is_named_with_its_line(self):
        self.assert_one(self.check("\n```console\n$ echo one\ntwo\n```\n"), "README.md:3: $ echo one", "shown:   two",
                        "printed: one")

    def test_a_missing_line_and_a_surplus_line_are_found(self):
        self.assertEqual(len(self.check("```console\n$ echo one\none\ntwo\n```\n")), 1)
        self.assertEqual(len(self.check("```console\n$ echo one; echo two\none\n```\n")), 1)
        self.assertEqual(len(self.check("```console\n$ echo one\n```\n")), 1)

    def test_ellipses_stand_for_text_and_for_lines(self):
        text = "```console\n$ seq 1 9; echo took 12 ms\n1\n...\n9\ntook ... ms\n```\n"
        self.assertEqual(self.check(text), [])
        self.assertEqual(len(self.check(text.replace("took", "lost", 1))), 1)

    def test_an_example_of_ellipses_only_is_refused(self):
        self.assert_one(self.check("```console\n$ echo one\n...\n```\n"), "nothing that could be compared")

    def test_a_command_that_is_not_there_is_found(self):
        self.assert_one(self.check("```console\n$ ./inkstone-is-not-here\nhello\n```\n"), "No such file")

    def test_a_background_process_ends_with_its_block(self):
        text = "```console\n$ (sleep 300; touch left-behind) &\n$ echo called\ncalled\n```\n"
        self.assertEqual(self.check(text), [])

    def test_a_command_that_ends_the_shell_is_found(self):
        self.assertEqual(len(self.check("```console\n$ exit 0\n$ echo one\none\n```\n")), 1)

    def test_a_block_may_be_marked_as_not_run_with_a_reason(self):
        block = "```console\n$ exit 3\nnothing\n```\n"
        self.assertEqual(self.check("<!-- not run: it installs packages -->\n" + block), [])
        self.assertEqual(self.not_run, 1)
        self.assertEqual(len(self.check("<!-- not run: -->\n" + block)), 1)


if __name__ == "__main__":
    unittest.main()
