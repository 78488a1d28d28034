// SPDX-License-Identifier: Apache-2.0
// Pictures and sounds against the reference: what preprocessing makes of files, the vision tower, and the
// model behind both towers.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "backends/cpu/cpu_backend.h"
#include "media/preprocessor.h"
#include "model/towers.h"
#include "tests/golden/golden_cases.h"

namespace inkstone::testing {
namespace {

constexpr std::int64_t kBins = 80;
constexpr std::int32_t kImageSlot = 2017;
constexpr std::int32_t kAudioSlot = 2016;

std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  INK_CHECK(!chars.empty(), path);
  const auto* data = reinterpret_cast<const std::byte*>(chars.data());
  return {data, data + chars.size()};
}

std::vector<std::string> files_of(const std::string& folder, const std::string& extension) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_path(folder))) {
    if (entry.path().extension() == extension) names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

template <class T>
T take(Result<T> result) {
  INK_CHECK(result.has_value(), result.has_value() ? "" : result.error().message);
  return std::move(*result);
}

ThreadPool& pool() {
  static ThreadPool threads(2);
  return threads;
}

// The shipped processor_config.json with another patch size, alpha dropped as the goldens have it.
media::Preprocessor preprocessor(std::int64_t patch_size, std::vector<std::int64_t> sides = {}) {
  const std::vector<std::byte> file =
      bytes_of(std::string(INKSTONE_SOURCE_DIR) + "/models/inkling-mini/processor_config.json");
  media::TowerInputs towers;
  towers.patch_size = 10;
  towers.audio = media::TowerInputs::Audio{kBins, std::nullopt};
  media::ProcessorConfig config =
      take(media::parse_processor_config({reinterpret_cast<const char*>(file.data()), file.size()}, towers));
  config.image->patches.patch_size = patch_size;
  media::PreprocessorOptions options;
  options.alpha = media::AlphaRule::kDrop;
  options.layout.sides = std::move(sides);
  return {config, options};
}

// Both halves of a golden patch [2, P, P, 3] are the one frame that we keep.
void expect_patch(const std::vector<float>& golden, std::span<const float> frame, const std::string& name) {
  ASSERT_EQ(golden.size(), 2 * frame.size()) << name;
  for (std::size_t i = 0; i < golden.size(); ++i)
    ASSERT_EQ(golden[i], frame[i % frame.size()]) << name << " value " << i;
}

// Sum of both frames within 1e-6 of the sum of magnitudes; a pixel off by one level changes it by 0.028.
void expect_sum(float golden, std::span<const float> frame, const std::string& name) {
  double sum = 0;
  double magnitudes = 0;
  for (const float value : frame) {
    sum += 2.0 * value;
    magnitudes += 2.0 * std::fabs(value);
  }
  EXPECT_NEAR(sum, golden, 1e-6 * magnitudes) << name;
}

class ImageGolden : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(ImageGolden, PatchesAreTheReferencesBitForBit) {
  const std::int64_t patch_size = GetParam();
  const GoldenFile golden("preprocess/images_patch" + std::to_string(patch_size) + ".safetensors");
  const media::Preprocessor prepare = preprocessor(patch_size);
  const std::vector<std::string> names = files_of("preprocess", ".png");
  ASSERT_EQ(names.size(), 9U);
  for (const std::string& name : names) {
    const media::MediaItem item =
        take(prepare.image(bytes_of(golden_path("preprocess/" + name + ".png")), pool()));
    ASSERT_EQ(item.num_slots, golden.ints(name + ".num_patches")[0]) << name;
    const auto frame = [&](std::int64_t i) {
      return std::span<const float>(item.tensor.row<float>(i),
                                    static_cast<std::size_t>(item.tensor.row_elements()));
    };
    expect_patch(golden.floats(name + ".first_patch"), frame(0), name + " first patch");
    expect_patch(golden.floats(name + ".last_patch"), frame(item.num_slots - 1), name + " last patch");
    const std::vector<float> sums = golden.floats(name + ".patch_sums");
    for (std::int64_t i = 0; i < item.num_slots; ++i)
      expect_sum(sums[static_cast<std::size_t>(i)], frame(i), name + " patch " + std::to_string(i));
  }
}

INSTANTIATE_TEST_SUITE_P(PatchSizes, ImageGolden, ::testing::Values(10, 40));

TEST(AudioGolden, LogMelAndEveryLevelAgree) {
  const GoldenFile golden("preprocess/audio.safetensors");
  const media::Preprocessor prepare = preprocessor(10);
  const media::LogMel log_mel{media::MelRule{}};
  const std::vector<std::string> names = files_of("preprocess", ".wav");
  ASSERT_EQ(names.size(), 7U);
  for (const std::string& name : names) {
    const std::vector<std::byte> file = bytes_of(golden_path("preprocess/" + name + ".wav"));
    const std::vector<float> values = log_mel.run(take(media::decode_audio(file)).samples, pool());
    EXPECT_THAT(values, ::testing::Pointwise(::testing::FloatNear(3e-6F), golden.floats(name + ".log_mel")))
        << name;
    const media::MediaItem item = take(prepare.audio(file, pool()));
    const std::vector<std::int32_t> levels(item.tensor.as<std::int32_t>(),
                                           item.tensor.as<std::int32_t>() + item.num_slots * kBins);
    EXPECT_EQ(levels, golden.ints(name + ".dmel")) << name;
  }
}

// Runs a tower over a host tensor; small pieces, so that their borders are crossed.
template <class Tower>
std::vector<float> vectors_of(const Tower& tower, const MiniModel& mini, const TensorView& input) {
  std::vector<float> out(static_cast<std::size_t>(input.rows() * mini.config.width));
  std::vector<std::byte> memory(static_cast<std::size_t>(tower.workspace_bytes()));
  model::Workspace workspace(memory.data(), tower.workspace_bytes());
  const auto stream = mini.backend->make_stream();
  tower.run(input, TensorView(out.data(), ScalarType::kF32, {input.rows(), mini.config.width}), workspace,
            *stream);
  stream->wait();
  return out;
}

model::VisionTower vision_tower(const MiniModel& mini, std::int64_t max_patches) {
  return take(
      model::VisionTower::create(*mini.config.vision, *mini.weights.vision, *mini.backend, max_patches));
}

std::vector<float> image_vectors(const MiniModel& mini, std::int64_t max_patches) {
  const model::VisionTower tower = vision_tower(mini, max_patches);
  const media::MediaItem item =
      take(preprocessor(10, tower.patch_sides()).image(bytes_of(golden_path("images/02.png")), pool()));
  return vectors_of(tower, mini, item.tensor);
}

std::vector<float> audio_vectors(const MiniModel& mini) {
  const model::AudioTower tower =
      take(model::AudioTower::create(*mini.config.audio, *mini.weights.audio, *mini.backend, 7));
  const media::MediaItem item = take(preprocessor(10).audio(bytes_of(golden_path("sounds/39.wav")), pool()));
  return vectors_of(tower, mini, item.tensor);
}

// The golden case `name` with the towers' vectors at its slots.
model::ProbeResult run_case(const MiniModel& mini, const std::string& name, std::int32_t slot,
                            const std::vector<float>& vectors, std::vector<std::int64_t> chunks) {
  const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
  std::vector<std::int32_t> positions;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == slot) positions.push_back(static_cast<std::int32_t>(i));
  }
  INK_CHECK(positions.size() * static_cast<std::size_t>(mini.config.width) == vectors.size(), name);
  model::ProbeRequest request = request_for(name, ids, std::move(chunks), 8);
  request.media_positions = positions;
  request.media_vectors = vectors;
  return mini.run(request);
}

TEST(MediaGolden, PixelValuesOfTheImageCaseAreEqual) {
  const media::MediaItem item = take(preprocessor(10).image(bytes_of(golden_path("images/02.png")), pool()));
  const std::vector<float> golden = goldens().floats("image.pixel_values");
  const auto values = static_cast<std::size_t>(item.tensor.row_elements());
  ASSERT_EQ(golden.size(), static_cast<std::size_t>(item.num_slots) * 2 * values);
  for (std::int64_t i = 0; i < item.num_slots; ++i) {
    const auto from = golden.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(i) * 2 * values);
    expect_patch({from, from + static_cast<std::ptrdiff_t>(2 * values)}, {item.tensor.row<float>(i), values},
                 "patch " + std::to_string(i));
  }
}

TEST(MediaGolden, LevelsOfTheAudioCaseAreEqual) {
  const media::MediaItem item = take(preprocessor(10).audio(bytes_of(golden_path("sounds/39.wav")), pool()));
  const std::vector<std::int32_t> levels(item.tensor.as<std::int32_t>(),
                                         item.tensor.as<std::int32_t>() + item.num_slots * kBins);
  EXPECT_EQ(levels, goldens().ints("audio.audio_input_ids"));
}

// The backends that compute in f32.
MiniModel mini_on(const std::string& backend) {
  MiniModel mini;
  if (backend == "cpu") mini.backend = std::make_unique<cpu::CpuBackend>(0);
  return mini;
}

class MediaOnHosts : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Backends, MediaOnHosts, ::testing::Values("reference", "cpu"),
                         [](const auto& info) { return info.param; });

TEST_P(MediaOnHosts, VisionTowerAgrees) {
  const MiniModel mini = mini_on(GetParam());
  // fp32 reaches 9e-7 (golden README).
  EXPECT_LE(relative_difference(image_vectors(mini, 128), goldens().floats("image.tower")), 5e-6);
}

TEST_P(MediaOnHosts, PiecesOfTheVisionTowerGiveTheSameBits) {
  const MiniModel mini = mini_on(GetParam());
  EXPECT_EQ(image_vectors(mini, 5), image_vectors(mini, 128));
}

TEST_P(MediaOnHosts, ImageCaseAgreesWithTheReference) {
  const MiniModel mini = mini_on(GetParam());
  const model::ProbeResult result = run_case(mini, "image", kImageSlot, image_vectors(mini, 16), {512});
  expect_trunk("image", result);
  expect_hidden("image", result, mini.config.width);
  expect_heads("image", result);
}

TEST_P(MediaOnHosts, AudioCaseAgreesWithTheReference) {
  const MiniModel mini = mini_on(GetParam());
  const model::ProbeResult result = run_case(mini, "audio", kAudioSlot, audio_vectors(mini), {512});
  expect_trunk("audio", result);
  expect_hidden("audio", result, mini.config.width);
  expect_heads("audio", result);
}

TEST_P(MediaOnHosts, ChunksThatCutAMediumGiveTheSameBits) {
  const MiniModel mini = mini_on(GetParam());
  const std::vector<float> vectors = image_vectors(mini, 16);
  const model::ProbeResult whole = run_case(mini, "image", kImageSlot, vectors, {512});
  for (const std::int64_t chunk : {1, 7, 64}) {
    const model::ProbeResult parts = run_case(mini, "image", kImageSlot, vectors, {chunk});
    EXPECT_EQ(parts.logits, whole.logits) << chunk;
    EXPECT_EQ(parts.hidden, whole.hidden) << chunk;
  }
}

// Broken controls: what the goldens must notice.

TEST(MediaGolden, WrongPixelOrderIsNoticed) {
  const MiniModel mini;
  const media::MediaItem item = take(preprocessor(10).image(bytes_of(golden_path("images/02.png")), pool()));
  const std::vector<float> wrong = vectors_of(vision_tower(mini, 128), mini, item.tensor);
  EXPECT_GT(relative_difference(wrong, goldens().floats("image.tower")), 5e-6);
}

TEST(MediaGolden, OneWrongLevelIsNoticed) {
  const MiniModel mini;
  const model::AudioTower tower =
      take(model::AudioTower::create(*mini.config.audio, *mini.weights.audio, *mini.backend, 64));
  const media::MediaItem item = take(preprocessor(10).audio(bytes_of(golden_path("sounds/39.wav")), pool()));
  item.tensor.as<std::int32_t>()[7 * kBins + 30] ^= 1;
  const std::vector<float> vectors = vectors_of(tower, mini, item.tensor);
  const model::ProbeResult result = run_case(mini, "audio", kAudioSlot, vectors, {512});
  EXPECT_GT(relative_difference(result.logits, goldens().floats("audio.logits_last")), kGoldenTolerance);
}

}  // namespace
}  // namespace inkstone::testing
