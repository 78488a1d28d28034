// SPDX-License-Identifier: Apache-2.0
// Usage: TARGET [ITERATIONS] [SEED]. Runs every seed as it is, then mutants of them.
#include "tests/support/fuzz_driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

using inkstone::test_support::fuzz_seeds;

class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, std::uint64_t seed) : seeds_(std::move(seeds)), random_(seed) {}

  std::string next() {
    std::string input = seeds_[pick(seeds_.size())];
    // One change in half of the cases: a valid input often stays valid.
    for (std::size_t rounds = 1 + pick(2) * pick(6); rounds > 0; --rounds) mutate(input);
    return input;
  }

 private:
  std::size_t pick(std::size_t count) { return count == 0 ? 0 : random_() % count; }

  void mutate(std::string& input) {
    static constexpr char kBytes[] = {'\0', '\xff', '\x80', '"', '\\', '{', '}', '[',
                                      ']',  ':',    ',',    '0', '-',  '9', ' '};
    const std::size_t at = pick(input.size() + 1);
    const std::size_t length = std::min(pick(16), input.size() - at);
    switch (pick(7)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << pick(8)));
        break;
      case 1:
        if (at < input.size()) input[at] = kBytes[pick(sizeof kBytes)];
        break;
      case 2:
        input.insert(at, 1, kBytes[pick(sizeof kBytes)]);
        break;
      case 3:
        input.erase(at, length);
        break;
      case 4:
        input.insert(pick(input.size() + 1), input.substr(at, length));
        break;
      case 5:
        input.resize(at);
        break;
      default: {
        const std::string& other = seeds_[pick(seeds_.size())];
        const std::size_t from = pick(other.size());
        input.insert(at, other.substr(from, pick(64)));
      }
    }
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_;
};

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  const long iterations = argc > 1 ? std::atol(argv[1]) : 10'000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const std::vector<std::string> seeds = fuzz_seeds();
  for (const std::string& input : seeds) run(input);
  Mutator mutator(seeds, seed);
  for (long idx = 0; idx < iterations; ++idx) run(mutator.next());
  std::printf("%ld mutants of %zu seeds\n", iterations, seeds.size());
  return 0;
}
