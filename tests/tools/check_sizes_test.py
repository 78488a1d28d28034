# SPDX-License-Identifier: Apache-2.0
"""Each limit of tools/check_sizes.py, met and exceeded by one; and what the outline must not be fooled by."""
import unittest

from source_fixture import TreeTest

import check_sizes
from cpp_outline import outline


def function(lines, head="void f()"):
    return head + " {\n" + "  g();\n" * lines + "}\n"


def functions(source):
    return [(f.name, f.body_lines, f.parameters) for f in outline(source).functions]


class CheckSizes(TreeTest):
    def check_one(self, path, fits, too_large, *parts):
        self.write(path, fits)
        self.assertEqual(check_sizes.check(self.root), [])
        self.write(path, too_large)
        self.assert_one(check_sizes.check(self.root), path, *parts)

    def test_headers(self):
        self.check_one("src/base/a.h", "\n" * 400, "\n" * 401, "lines of the file", "401, at most 400")

    def test_sources(self):
        self.check_one("src/base/a.cc", "\n" * 600, "\n" * 601, "at most 600")

    def test_device_headers(self):
        self.check_one("src/backends/cuda/a.cuh", "\n" * 700, "\n" * 701, "at most 700")

    def test_host_functions(self):
        self.check_one("src/base/a.cc", function(60), function(61), "a.cc:1", "lines of f", "61, at most 60")

    def test_device_functions(self):
        head = "__device__ __forceinline__ void f()"
        self.check_one("src/backends/cuda/a.cuh", function(100, head), function(101, head), "at most 100")

    def test_kernels(self):
        head = "template <int N>\n__global__ void __launch_bounds__(256, 1) f(int n)"
        self.check_one("src/backends/cuda/a.cu", function(150, head), function(151, head), "lines of f", "at most 150")

    def test_parameters(self):
        six = "void f(int a, int b, int c, int d, int e, std::map<int, int> g) {}\n"
        self.check_one("src/base/a.cc", six, six.replace("int a,", "int a, int z,"), "parameters of f: 7, at most 6")

    def test_interfaces(self):
        def interface(methods):
            body = "".join(f"  virtual void m{i}(int a) = 0;\n" for i in range(methods))
            return "class Ops {\n public:\n  virtual ~Ops() = default;\n" + body + "};\n"
        self.check_one("src/ops/a.h", interface(10), interface(11), "methods of Ops: 11, at most 10")

    def test_folders_without_their_tests(self):
        for number in range(25):
            self.write(f"src/ops/a{number}.cc", "\n")
        self.write("src/ops/a_test.cc", "\n")
        self.assertEqual(check_sizes.check(self.root), [])
        self.write("src/ops/a25.cc", "\n")
        self.assert_one(check_sizes.check(self.root), "src/ops", "26, at most 25")

    def test_an_exception_has_its_own_limit_and_a_reason(self):
        self.write("src/base/a.cc", function(70))
        self.write(check_sizes.EXCEPTIONS, "src/base/a.cc:f 70 one table\n")
        self.assertEqual(check_sizes.check(self.root), [])
        self.write("src/base/a.cc", function(71))
        self.assert_one(check_sizes.check(self.root), "71, at most 70")
        self.write(check_sizes.EXCEPTIONS, "src/base/a.cc:f 71\n")
        self.assertIn("needs a path, a limit and a reason", check_sizes.check(self.root)[0])

    def test_an_exception_that_is_not_needed_is_an_error(self):
        self.write("src/base/a.cc", function(10))
        self.write(check_sizes.EXCEPTIONS, "src/base/a.cc:f 70 one table\n")
        self.assert_one(check_sizes.check(self.root), "needs no exception")


class Outline(unittest.TestCase):
    def test_braces_in_text_comments_and_directives_do_not_count(self):
        source = ('#define OPEN { \\\n  {\nvoid f() {\n  a("{{", \'{\', R"x({{{)x");  // {\n  /* { */ b(1\'000);\n}\n'
                  "void g() {\n}\n")
        self.assertEqual(functions(source), [("f", 2, 0), ("g", 0, 0)])

    def test_methods_carry_their_class(self):
        source = "namespace a::b {\nclass C final : public D<int> {\n public:\n  int size() const { return 1; }\n};\n}\n"
        self.assertEqual(functions(source), [("C::size", 0, 0)])

    def test_member_initialisers_are_not_bodies(self):
        source = "C::C(int a, int b) : a_{a}, b_(b), v_{1, 2} {\n  f();\n}\nC::~C() {\n}\n"
        self.assertEqual(functions(source), [("C::C", 1, 2), ("C::~C", 0, 0)])

    def test_initialisers_and_enums_are_not_functions(self):
        source = "const int kA[] = {f(1), 2};\nint b{g(3)};\nenum class E { kOne };\nstruct S {\n  int x = 0;\n  V v{1};\n};\n"
        self.assertEqual(functions(source), [])

    def test_templates_operators_and_trailing_types(self):
        source = ("template <class T, class U = std::pair<int, int>>\nauto f(T a, U b = U{1, 2}) -> R<T, U> {\n}\n"
                  "bool operator()(int a) {\n}\nX& X::operator<<(int a) {\n}\nX::operator bool() const {\n}\n"
                  "int g(void) noexcept(true) {\n}\n")
        self.assertEqual(functions(source), [("f", 0, 2), ("operator()", 0, 1), ("operator<<", 0, 1),
                                             ("operatorbool", 0, 0), ("g", 0, 0)])

    def test_lambdas_belong_to_their_function(self):
        source = "void f(F a) {\n  run([&](int x) {\n    if (x) {\n    }\n  });\n}\n"
        self.assertEqual(functions(source), [("f", 4, 1)])

    def test_functions_that_return_a_struct(self):
        source = "struct P f(int a) {\n}\nstruct alignas(64) Q {\n  void g(int a, int b) {\n  }\n};\n"
        self.assertEqual(functions(source), [("f", 0, 1), ("Q::g", 0, 2)])

    def test_function_parameters_of_function_type_count_once(self):
        self.assertEqual(functions("void f(const std::function<void(int, int)>& a, int (*b)(int, int)) {}\n"), [("f", 0, 2)])

    def test_tests_are_named_as_they_print(self):
        self.assertEqual(functions("TEST(PagePool, IsEmpty) {\n  f();\n}\n"), [("PagePool.IsEmpty", 1, 2)])


if __name__ == "__main__":
    unittest.main()
