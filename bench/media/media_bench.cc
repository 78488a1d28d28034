// SPDX-License-Identifier: Apache-2.0
// Prepares one file several times on one thread and prints the milliseconds of processor time of each.
//   media_bench picture FILE REPETITIONS [OUT]    OUT: the patches, f32, row by row, for comparison
//   media_bench sound FILE REPETITIONS
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include "media/preprocessor.h"

namespace inkstone::media {
namespace {

std::vector<std::byte> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto* data = reinterpret_cast<const std::byte*>(chars.data());
  return {data, data + chars.size()};
}

Preprocessor preprocessor() {
  ProcessorConfig config = parse_processor_config("", {40, TowerInputs::Audio{80, DmelGrid{}}}).value();
  return {std::move(config), {}};
}

int run(const std::string& kind, const char* path, int repetitions, const char* out) {
  const Preprocessor prepare = preprocessor();
  const std::vector<std::byte> encoded = read_file(path);
  ThreadPool one(1);
  for (int i = 0; i < repetitions; ++i) {
    const std::clock_t start = std::clock();
    const auto item = kind == "picture" ? prepare.image(encoded, one) : prepare.audio(encoded, one);
    const double taken = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (!item) {
      std::fprintf(stderr, "%s\n", item.error().message.c_str());
      return 1;
    }
    std::printf("%.3f\n", taken);
    if (out != nullptr && i == 0)
      std::ofstream(out, std::ios::binary)
          .write(reinterpret_cast<const char*>(item->tensor.data), item->tensor.bytes());
  }
  return 0;
}

}  // namespace
}  // namespace inkstone::media

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: media_bench (picture|sound) FILE REPETITIONS [OUT]\n");
    return 2;
  }
  return inkstone::media::run(argv[1], argv[2], std::atoi(argv[3]), argc > 4 ? argv[4] : nullptr);
}
