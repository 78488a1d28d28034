# SPDX-License-Identifier: Apache-2.0
"""Each rule of tools/check_names.py, broken once."""
import unittest

from source_fixture import TreeTest

import check_names

OPENING = "// SPDX-License-Identifier: Apache-2.0\n"


class CheckNames(TreeTest):
    def check(self):
        return check_names.check(self.root)

    def test_plain_names_with_a_licence_pass(self):
        self.write("src/cache/cache_manager.h", OPENING)
        self.write("src/cache/renewal.cc", OPENING)
        self.write("tools/build.py", "#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n")
        self.assertEqual(self.check(), [])

    def test_each_empty_word_is_refused_in_files_and_folders(self):
        for word in sorted(check_names.FORBIDDEN):
            with self.subTest(word=word):
                self.assertEqual(len(list(check_names.name_errors(f"src/base/string_{word}.cc"))), 1)
                self.assertEqual(len(list(check_names.name_errors(f"src/{word}/string.cc"))), 1)

    def test_other_managers_are_refused(self):
        self.write("src/cache/page_manager.h", OPENING)
        self.assert_one(self.check(), "src/cache/page_manager.h: name", "manager")

    def test_a_source_without_licence_is_refused(self):
        self.write("src/base/check.h", "#pragma once\n" + OPENING)
        self.assert_one(self.check(), "src/base/check.h:1: licence")

    def test_data_keeps_its_names(self):
        self.write("models/a/new.h", "")
        self.write("tests/data/util.py", "")
        self.assertEqual(self.check(), [])


if __name__ == "__main__":
    unittest.main()
