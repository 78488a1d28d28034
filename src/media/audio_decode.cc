// SPDX-License-Identifier: Apache-2.0
#include "media/audio_decode.h"

#include <fmt/format.h>
#include <sndfile.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

#include "media/codecs/vorbis_headers.h"

namespace inkstone::media {
namespace {

constexpr std::int64_t kBlockValues = 1 << 16;  // decoded at once, over all channels

// The encoded bytes as a file.
struct MemoryFile {
  std::span<const std::byte> bytes;
  sf_count_t position = 0;

  [[nodiscard]] sf_count_t size() const { return static_cast<sf_count_t>(bytes.size()); }
};

sf_count_t memory_size(void* file) { return static_cast<MemoryFile*>(file)->size(); }

sf_count_t memory_tell(void* file) { return static_cast<MemoryFile*>(file)->position; }

sf_count_t memory_seek(sf_count_t offset, int whence, void* user) {
  auto& file = *static_cast<MemoryFile*>(user);
  const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? file.position : file.size();
  file.position = std::clamp<sf_count_t>(base + offset, 0, file.size());
  return file.position;
}

sf_count_t memory_read(void* to, sf_count_t count, void* user) {
  auto& file = *static_cast<MemoryFile*>(user);
  count = std::clamp<sf_count_t>(count, 0, file.size() - file.position);
  std::memcpy(to, file.bytes.data() + file.position, static_cast<std::size_t>(count));
  file.position += count;
  return count;
}

sf_count_t memory_write(const void*, sf_count_t, void*) { return 0; }

struct CloseSound {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
using SoundFile = std::unique_ptr<SNDFILE, CloseSound>;

bool begins_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// An MPEG audio frame: eleven set bits, then version, layer and rate that are not reserved.
bool is_mpeg_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < 4) return false;
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(bytes[i]); };
  return at(0) == 0xff && (at(1) & 0xe0U) == 0xe0U && (at(1) & 0x18U) != 0x08U && (at(1) & 0x06U) != 0 &&
         (at(2) & 0xf0U) != 0xf0U && (at(2) & 0x0cU) != 0x0cU;
}

// libsndfile reads many more containers; only these are let through to it.
std::string_view container_of(std::span<const std::byte> bytes) {
  const bool riff = begins_with(bytes, "RIFF") || begins_with(bytes, "RF64") || begins_with(bytes, "RIFX");
  if (riff && bytes.size() >= 12 && begins_with(bytes.subspan(8), "WAVE")) return "WAV";
  if (begins_with(bytes, "fLaC")) return "FLAC";
  if (begins_with(bytes, "OggS")) return "OGG";
  if (begins_with(bytes, "ID3") || is_mpeg_frame(bytes)) return "MP3";
  return "";
}

Status within(const SF_INFO& info, std::string_view container, const AudioLimits& limits) {
  if (info.samplerate < limits.min_rate || info.samplerate > limits.max_rate)
    return fail(ErrorKind::kUnsupported, fmt::format("{}: {} samples a second; {} to {} are read", container,
                                                     info.samplerate, limits.min_rate, limits.max_rate));
  if (info.channels < 1) return fail(ErrorKind::kCorrupt, fmt::format("{}: no channels", container));
  const double seconds = static_cast<double>(info.frames) / info.samplerate;
  if (seconds > limits.max_seconds || info.frames > limits.max_frames)
    return fail(
        ErrorKind::kTooLarge,
        fmt::format("{}: {} samples at {} a second last {:.1f} s; at most {:.0f} s and {} samples", container,
                    info.frames, info.samplerate, seconds, limits.max_seconds, limits.max_frames));
  return {};
}

// Appends the mean of the channels.
void mix_down(const float* values, std::int64_t frames, int channels, std::vector<float>& out) {
  for (std::int64_t i = 0; i < frames; ++i) {
    double sum = 0;
    for (int c = 0; c < channels; ++c) sum += values[i * channels + c];
    out.push_back(static_cast<float>(sum / channels));
  }
}

Result<std::vector<float>> read_samples(SNDFILE* file, SF_INFO info, std::string_view container,
                                        const AudioLimits& limits) {
  const std::int64_t block = std::max<std::int64_t>(1, kBlockValues / info.channels);
  std::vector<float> values(static_cast<std::size_t>(block * info.channels));
  std::vector<float> samples;  // grows as samples come: a header may promise anything
  for (;;) {
    const sf_count_t frames = sf_readf_float(file, values.data(), block);
    if (frames <= 0) break;
    mix_down(values.data(), frames, info.channels, samples);
    info.frames = std::max(info.frames, static_cast<sf_count_t>(samples.size()));
    INK_TRY(within(info, container, limits));
  }
  const bool cut = static_cast<sf_count_t>(samples.size()) < info.frames;
  if (cut && (container == "FLAC" || container == "OGG"))
    return fail(ErrorKind::kCorrupt, fmt::format("{}: damaged or cut short after {} of {} samples", container,
                                                 samples.size(), info.frames));
  return samples;
}

}  // namespace

Result<Sound> decode_audio(std::span<const std::byte> encoded, const AudioLimits& limits) try {
  const auto bytes = static_cast<std::int64_t>(encoded.size());
  if (bytes > limits.max_encoded_bytes)
    return fail(ErrorKind::kTooLarge, fmt::format("a sound file of {} bytes; at most {} are allowed", bytes,
                                                  limits.max_encoded_bytes));
  const std::string_view container = container_of(encoded);
  if (container.empty())
    return fail(ErrorKind::kUnsupported, "the data is not a WAV, FLAC, OGG or MP3 sound");

  if (container == "OGG" && !vorbis_headers_are_sound(encoded))
    return fail(ErrorKind::kCorrupt, "OGG: the headers are damaged or cut short");

  MemoryFile memory{encoded};
  SF_VIRTUAL_IO access{&memory_size, &memory_seek, &memory_read, &memory_write, &memory_tell};
  SF_INFO info{};
  const SoundFile file(sf_open_virtual(&access, SFM_READ, &info, &memory));
  if (!file) return fail(ErrorKind::kCorrupt, fmt::format("{}: {}", container, sf_strerror(nullptr)));
  if (container == "OGG" && info.frames == SF_COUNT_MAX)
    return fail(ErrorKind::kCorrupt, fmt::format("{}: cut short", container));
  INK_TRY(within(info, container, limits));
  Sound sound{info.samplerate, INK_TRY(read_samples(file.get(), info, container, limits))};
  if (sound.samples.empty()) return fail(ErrorKind::kCorrupt, fmt::format("{}: no samples", container));
  if (!std::all_of(sound.samples.begin(), sound.samples.end(), [](float v) { return std::isfinite(v); }))
    return fail(ErrorKind::kCorrupt, fmt::format("{}: samples that are not finite numbers", container));
  return sound;
} catch (const std::bad_alloc&) {
  return fail(ErrorKind::kUnavailable, "no memory for the sound");
}

}  // namespace inkstone::media
