// SPDX-License-Identifier: Apache-2.0
// tests/support/fuzz_driver.h - a fuzz target is one function over bytes, so that libFuzzer can run it where
// the compiler has it; elsewhere fuzz_driver.cc mutates the target's seeds, the same way in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Defined by the target. Faults are crashes, failed INK_CHECKs and sanitizer reports; the return value is 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace inkstone::test_support {

// Defined by the target: valid and nearly valid inputs to start from, at least one.
std::vector<std::string> fuzz_seeds();

}  // namespace inkstone::test_support
