# SPDX-License-Identifier: Apache-2.0
"""Each rule of tools/check_layers.py, broken once."""
import unittest

from source_fixture import TreeTest

import check_layers

TABLE = """
app: *
cache: base model/state_spec.h
model: base ops
ops: base
backends/reference: base ops
backends/cuda: base ops
base:
"""


class CheckLayers(TreeTest):
    def setUp(self):
        super().setUp()
        self.write("src/LAYERS", TABLE)
        for header in ("base/check.h", "ops/norm.h", "model/decoder.h", "model/state_spec.h",
                       "backends/reference/norm.h", "backends/cuda/norm.cuh", "app/options.h"):
            self.write("src/" + header, "#pragma once\n")

    def check(self):
        return check_layers.check(self.root)

    def test_a_tree_within_its_layers_passes(self):
        self.write("src/ops/norm.cc", '#include "ops/norm.h"\n#include <vector>\n#include "base/check.h"\n')
        self.write("src/app/main.cc", '#include "backends/cuda/norm.cuh"\n#include "model/decoder.h"\n')
        self.assertEqual(self.check(), [])

    def test_a_header_from_above_is_named_with_file_and_line(self):
        self.write("src/ops/norm.cc", '#include "ops/norm.h"\n\n#include "model/decoder.h"\n')
        self.assert_one(self.check(), "src/ops/norm.cc:3: layer", "model/decoder.h")

    def test_angle_brackets_do_not_hide_a_layer(self):
        self.write("src/ops/norm.cc", "#include <model/decoder.h>\n")
        self.assert_one(self.check(), "src/ops/norm.cc:1: layer")

    def test_backends_do_not_see_each_other(self):
        self.write("src/backends/cuda/norm.cu", '#  include "backends/reference/norm.h"\n')
        self.assert_one(self.check(), "src/backends/cuda/norm.cu:1: layer", "backends/reference/norm.h")

    def test_a_single_header_may_be_allowed(self):
        self.write("src/cache/pages.cc", '#include "model/state_spec.h"\n')
        self.assertEqual(self.check(), [])
        self.write("src/cache/pages.cc", '#include "model/decoder.h"\n')
        self.assert_one(self.check(), "src/cache/pages.cc:1: layer")

    def test_a_unit_test_may_include_any_header(self):
        self.write("tests/support/shapes.h", "")
        self.write("src/model/decoder_test.cc",
                   '#include "backends/reference/norm.h"\n#include "tests/support/shapes.h"\n')
        self.assertEqual(self.check(), [])

    def test_a_product_file_may_not_include_test_support(self):
        self.write("tests/support/shapes.h", "")
        self.write("src/model/decoder.cc", '#include "tests/support/shapes.h"\n')
        self.assert_one(self.check(), "src/model/decoder.cc:1: path")

    def test_only_app_calls_measurements(self):
        self.write("bench/engine/engine_bench.h", "")
        self.write("src/app/bench.cc", '#include "bench/engine/engine_bench.h"\n')
        self.assertEqual(self.check(), [])
        self.write("src/model/decoder.cc", '#include "bench/engine/engine_bench.h"\n')
        self.assert_one(self.check(), "src/model/decoder.cc:1: path")

    def test_tests_may_include_anything(self):
        self.write("tests/conformance/norm_test.cc", '#include "backends/cuda/norm.cuh"\n#include <cuda_runtime.h>\n')
        self.assertEqual(self.check(), [])

    def test_a_path_relative_to_the_file_is_refused(self):
        self.write("src/ops/norm.cc", '#include "norm.h"\n')
        self.assert_one(self.check(), "src/ops/norm.cc:1: path")

    def test_a_folder_outside_the_table_is_refused(self):
        self.write("src/extra/thing.cc", "\n")
        self.assert_one(self.check(), "src/extra/thing.cc:1: folder")

    def test_cuda_headers_stay_in_their_backend(self):
        self.write("src/backends/cuda/norm.cu", "#include <cuda_bf16.h>\n")
        self.assertEqual(self.check(), [])
        self.write("src/model/decoder.cc", "#include <cuda_runtime.h>\n")
        self.assert_one(self.check(), "src/model/decoder.cc:1: cuda")

    def test_tuning_compiles_without_cuda(self):
        self.write("src/backends/cuda/norm_tuning.cc", "#include <cuda_runtime_api.h>\n")
        self.assert_one(self.check(), "src/backends/cuda/norm_tuning.cc:1: cuda")

    def test_the_json_header_is_for_sources_only(self):
        self.write("src/model/decoder.cc", "#include <nlohmann/json.hpp>\n")
        self.write("src/model/config.h", "#include <nlohmann/json_fwd.hpp>\n")
        self.assertEqual(self.check(), [])
        self.write("src/model/config.h", "#include <nlohmann/json.hpp>\n")
        self.assert_one(self.check(), "src/model/config.h:1: json")

    def test_boost_is_kept_to_four_files(self):
        for number in range(4):
            self.write(f"src/app/http{number}.cc", "#include <boost/asio.hpp>\n#include <boost/beast.hpp>\n")
        self.assertEqual(self.check(), [])
        self.write("src/app/http4.cc", "#include <boost/asio.hpp>\n")
        self.assertEqual(len(self.check()), 5)

    def test_layers_that_use_each_other_are_refused(self):
        self.write("src/LAYERS", TABLE.replace("base:", "base: ops"))
        self.assertTrue(any("table: base uses itself" in error for error in self.check()))

    def test_a_table_with_an_unknown_folder_is_refused(self):
        self.write("src/LAYERS", TABLE.replace("ops: base", "ops: base tensors"))
        self.assert_one(self.check(), "table: ops may use tensors")


if __name__ == "__main__":
    unittest.main()
