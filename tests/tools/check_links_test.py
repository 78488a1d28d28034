# SPDX-License-Identifier: Apache-2.0
"""Each rule of tools/check_links.py, broken once."""
import unittest

from source_fixture import TreeTest

import check_links


class CheckLinks(TreeTest):
    def check(self, text):
        self.write("src/base/check.h", "one\ntwo\n")
        self.write("docs/layers.md", "# The layers\n\n## Who may include whom?\n")
        self.write("docs/journey.md", text)
        return check_links.check(self.root)

    def test_links_that_resolve_pass(self):
        text = ("[a](../src/base/check.h) [b](../src/base) [c](layers.md#who-may-include-whom) [`d`](../src/base/check.h#L2)\n"
                "[e](https://example.org/x) [f](#top)\n\n# Top\n")
        self.assertEqual(self.check(text), [])

    def test_a_missing_file_is_named_with_document_and_line(self):
        self.assert_one(self.check("\n[a](../src/base/gone.h)\n"), "docs/journey.md:2", "../src/base/gone.h does not exist")

    def test_a_missing_heading_is_found(self):
        self.assert_one(self.check("[a](layers.md#nowhere)\n"), "has no heading")

    def test_a_line_beyond_the_end_is_found(self):
        self.assert_one(self.check("[a](../src/base/check.h#L9)\n"), "is shorter than L9")

    def test_a_link_out_of_the_project_is_found(self):
        self.assert_one(self.check("[a](../..)\n"), "lies outside the project")

    def test_code_is_not_read_for_links(self):
        self.assertEqual(self.check("`[a](gone.h)`\n\n```\n[a](gone.h)\n```\n"), [])


if __name__ == "__main__":
    unittest.main()
