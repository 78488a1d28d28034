// SPDX-License-Identifier: Apache-2.0
// For the comparison with other libraries: prepares many files and writes what came out.
//   media_dump < JOBS
// A job is one line of words: KIND IN OUT [ALPHA FRACTION LONG_EDGE]
//   picture  OUT = width and height (int64 each), then RGB rows after resizing. ALPHA white or drop, plus
//   "+exif"
//            to turn the picture; FRACTION and LONG_EDGE numbers or null
//   sound    OUT = float samples at 16 kHz
// Prints "ok" or the error, one line a job.
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "media/audio_decode.h"
#include "media/image_decode.h"
#include "media/resampler.h"
#include "media/resize.h"

namespace inkstone::media {
namespace {

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto* data = reinterpret_cast<const std::byte*>(chars.data());
  return {data, data + chars.size()};
}

template <class T>
void write_values(std::ostream& out, const T* values, std::size_t count) {
  out.write(reinterpret_cast<const char*>(values), static_cast<std::streamsize>(count * sizeof(T)));
}

Status dump_picture(std::istream& job, const std::vector<std::byte>& encoded, std::ostream& out) {
  std::string alpha;
  std::string fraction;
  std::string edge;
  job >> alpha >> fraction >> edge;
  DecodeOptions options;
  options.alpha = alpha.starts_with("drop") ? AlphaRule::kDrop : AlphaRule::kWhite;
  options.apply_exif = alpha.ends_with("+exif");
  RescaleRule rule{std::nullopt, std::nullopt};
  if (fraction != "null") rule.fraction = std::stod(fraction);
  if (edge != "null") rule.max_upscaled_long_edge = std::stoll(edge);
  INK_TRY(check(rule));
  RgbImage image = INK_TRY(decode_image(encoded, options));
  ThreadPool pool(2);
  image = resize_lanczos(image, INK_TRY(rescaled_size(image.size(), rule)), pool);
  const ImageSize size = image.size();
  write_values(out, &size, 1);
  write_values(out, image.pixels().data(), image.pixels().size());
  return {};
}

Status dump_sound(const std::vector<std::byte>& encoded, std::ostream& out) {
  const Sound sound = INK_TRY(decode_audio(encoded));
  const std::vector<float> samples = Resampler(sound.rate, 16000).run(sound.samples);
  write_values(out, samples.data(), samples.size());
  return {};
}

void run(const std::string& line) {
  std::istringstream job(line);
  std::string kind;
  std::string in;
  std::string out;
  job >> kind >> in >> out;
  std::ofstream file(out, std::ios::binary);
  const std::vector<std::byte> encoded = read_file(in);
  const Status status = kind == "sound" ? dump_sound(encoded, file) : dump_picture(job, encoded, file);
  std::cout << (status ? "ok" : status.error().message) << '\n';
}

}  // namespace
}  // namespace inkstone::media

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) inkstone::media::run(line);
}
