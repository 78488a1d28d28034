// SPDX-License-Identifier: Apache-2.0
#include "media/preprocessor.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/support/media_files.h"

namespace inkstone::media {
namespace {

using inkstone::testing::patterned;
using inkstone::testing::png_of;
using ::testing::HasSubstr;

TowerInputs real_towers() { return {40, TowerInputs::Audio{80, DmelGrid{}}}; }

ProcessorConfig parsed(std::string_view text, const TowerInputs& towers = real_towers()) {
  auto config = parse_processor_config(text, towers);
  INK_CHECK(config.has_value(), config.has_value() ? "" : config.error().message);
  return *config;
}

std::string refusal(std::string_view text, const TowerInputs& towers = real_towers()) {
  const auto config = parse_processor_config(text, towers);
  return config ? "accepted" : config.error().message;
}

TEST(ProcessorConfig, WithoutAFileTheFamilysValuesHold) {
  const ProcessorConfig config = parsed("");
  EXPECT_EQ(config.image->patches.patch_size, 40);
  EXPECT_EQ(config.image->rescale.fraction, 2.0);
  EXPECT_EQ(config.image->rescale.max_upscaled_long_edge, 2048);
  EXPECT_EQ(config.audio->mel.hop, 800);
  EXPECT_EQ(config.audio->mel.window, 1600);
  EXPECT_EQ(config.audio->grid.levels, 16);
}

TEST(ProcessorConfig, TheFileDecides) {
  const ProcessorConfig config = parsed(
      R"({"image_processor":{"rescale_image_frac":null,"image_mean":[0.5,0.5,0.5],"image_std":[0.25,0.5,1]},
          "feature_extractor":{"sampling_rate":8000,"audio_token_duration_s":0.1,"window_size_multiplier":1.5}})");
  EXPECT_EQ(config.image->rescale.fraction, std::nullopt);
  EXPECT_EQ(config.image->patches.mean[1], 0.5F);
  EXPECT_EQ(config.image->patches.deviation[0], 0.25F);
  EXPECT_EQ(config.audio->mel.rate, 8000);
  EXPECT_EQ(config.audio->mel.hop, 800);
  EXPECT_EQ(config.audio->mel.window, 1200);
}

TEST(ProcessorConfig, SwitchedOffTowersNeedNothing) {
  const ProcessorConfig config = parsed(R"({"feature_extractor":7,"image_processor":{"resample":3}})", {});
  EXPECT_FALSE(config.image.has_value());
  EXPECT_FALSE(config.audio.has_value());
}

TEST(ProcessorConfig, AMissingGridIsRefused) {
  const TowerInputs no_grid{std::nullopt, TowerInputs::Audio{80, std::nullopt}};
  EXPECT_THAT(refusal(R"({"feature_extractor":{"num_dmel_bins":16,"dmel_min_value":-7.0}})", no_grid),
              HasSubstr("feature_extractor.dmel_max_value is missing"));
  EXPECT_THAT(refusal("", no_grid), HasSubstr("num_dmel_bins is missing"));
  EXPECT_EQ(refusal(R"({"feature_extractor":{"num_dmel_bins":16,"dmel_min_value":-7,"dmel_max_value":2}})",
                    no_grid),
            "accepted");
}

TEST(ProcessorConfig, ContradictionsAndOtherFamiliesAreRefused) {
  EXPECT_THAT(refusal("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("{"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"processor_class":"Inkling2Processor"})"), HasSubstr("only InklingProcessor"));
  EXPECT_THAT(refusal(R"({"image_processor":{"image_processor_type":"Other"}})"),
              HasSubstr("image_processor_type"));
  EXPECT_THAT(refusal(R"({"image_processor":{"size":{"height":14,"width":40}}})"),
              HasSubstr("is 14 but config.json"));
  EXPECT_THAT(refusal(R"({"image_processor":{"size":{"height":40}}})"), HasSubstr("no height or no width"));
  EXPECT_THAT(refusal(R"({"image_processor":{"resample":3}})"), HasSubstr("LANCZOS"));
  EXPECT_THAT(refusal(R"({"image_processor":{"rescale_image_frac":-1}})"), HasSubstr("rescale_image_frac"));
  EXPECT_THAT(refusal(R"({"image_processor":{"image_std":[1,0,1]}})"),
              HasSubstr("image_std is not positive"));
  EXPECT_THAT(refusal(R"({"image_processor":{"image_mean":[1,"a",1]}})"), HasSubstr("three numbers"));
  EXPECT_THAT(refusal(R"({"feature_extractor":{"feature_size":64}})"), HasSubstr("feature_size is 64"));
  EXPECT_THAT(refusal(R"({"feature_extractor":{"dmel_min_value":-6}})"), HasSubstr("dmel_min_value is -6"));
  EXPECT_THAT(refusal(R"({"feature_extractor":{"audio_token_duration_s":0}})"),
              HasSubstr("no usable window"));
  EXPECT_THAT(refusal(R"({"feature_extractor":{"window_size_multiplier":1e9}})"),
              HasSubstr("no usable window"));
}

ThreadPool& pool() {
  static ThreadPool threads(2);
  return threads;
}

MediaItem item_of(const Result<MediaItem>& result) {
  INK_CHECK(result.has_value(), result.has_value() ? "" : result.error().message);
  return *result;
}

TEST(Preprocessor, TheSamePixelsAreOneMediumWhateverTheFile) {
  const Preprocessor prepare(parsed(""), {});
  const RgbImage image = patterned({50, 30});
  const MediaItem png = item_of(prepare.image(png_of(image), pool()));
  const MediaItem webp = item_of(prepare.image(testing::webp_of(image, true), pool()));
  EXPECT_EQ(png.content_hash, webp.content_hash);
  EXPECT_EQ(png.num_slots, 6);  // 100 x 60: 2 rows of 3
  EXPECT_EQ(png.tensor.shape, (Shape{6, 4800}));
}

TEST(Preprocessor, OnePixelMakesAnotherMedium) {
  const Preprocessor prepare(parsed(""), {});
  RgbImage image = patterned({50, 30});
  const MediaItem before = item_of(prepare.image(png_of(image), pool()));
  image.row(29)[147] ^= 0x40;
  const MediaItem after = item_of(prepare.image(png_of(image), pool()));
  EXPECT_NE(before.content_hash, after.content_hash);
}

TEST(Preprocessor, AFlatPictureOfAnotherSizeIsAnotherMedium) {
  const Preprocessor prepare(parsed(""), {});
  const RgbImage wide(ImageSize{30, 10});
  const RgbImage high(ImageSize{10, 30});
  EXPECT_NE(item_of(prepare.image(png_of(wide), pool())).content_hash,
            item_of(prepare.image(png_of(high), pool())).content_hash);
}

TEST(Preprocessor, TheRequestsRuleReplacesTheCheckpoints) {
  const Preprocessor prepare(parsed(""), {});
  const auto picture = png_of(patterned({640, 480}));
  EXPECT_EQ(item_of(prepare.image(picture, pool())).num_slots, 792);
  EXPECT_EQ(item_of(prepare.image(picture, RescaleRule{std::nullopt, std::nullopt}, pool())).num_slots, 204);
  EXPECT_FALSE(prepare.image(picture, RescaleRule{0.0, std::nullopt}, pool()));
}

// B48: awkward sizes.
TEST(Preprocessor, AwkwardPicturesHaveTheirSlots) {
  const Preprocessor prepare(parsed(""), {});
  const auto slots = [&](ImageSize size) {
    return item_of(prepare.image(png_of(patterned(size)), pool())).num_slots;
  };
  EXPECT_EQ(slots({1, 1}), 1);
  EXPECT_EQ(slots({3, 3}), 1);
  EXPECT_EQ(slots({41, 39}), 6);  // 82 x 78: 2 rows of 3
  EXPECT_EQ(slots({1, 4000}), 100);
  EXPECT_EQ(slots({4000, 1}), 101);
}

TEST(Preprocessor, TooManySlotsAreRefusedBeforeDecoding) {
  PreprocessorOptions options;
  options.max_slots = 100;
  const Preprocessor prepare(parsed(""), options);
  // The pixels are missing: only the header can have been read.
  const auto result = prepare.image(testing::raw_png(640, 480, 8, 2, 1, 10), pool());
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("640 x 480 pixels takes 792 tokens; at most 100"));
  EXPECT_EQ(result.error().kind, ErrorKind::kTooLarge);
  const auto sound = prepare.audio(testing::wav_of(std::vector<float>(80001), 1, 16000, 16), pool());
  ASSERT_FALSE(sound);
  EXPECT_THAT(sound.error().message, HasSubstr("80001 samples"));
  EXPECT_TRUE(prepare.audio(testing::wav_of(std::vector<float>(80000), 1, 16000, 16), pool()));
}

// B50: sounds of odd lengths and forms.
TEST(Preprocessor, SoundsOfAnyFormHaveTheirSlots) {
  const Preprocessor prepare(parsed(""), {});
  const auto slots = [&](std::size_t frames, int channels, int rate, int bits) {
    const std::vector<float> samples(frames * static_cast<std::size_t>(channels), 0.1F);
    return item_of(prepare.audio(testing::wav_of(samples, channels, rate, bits), pool())).num_slots;
  };
  EXPECT_EQ(slots(1, 1, 16000, 16), 1);
  EXPECT_EQ(slots(799, 1, 16000, 16), 1);
  EXPECT_EQ(slots(801, 1, 16000, 16), 2);
  EXPECT_EQ(slots(8000, 1, 8000, 16), 20);
  EXPECT_EQ(slots(44100, 2, 44100, 16), 20);
  EXPECT_EQ(slots(48001, 1, 48000, 24), 21);
  EXPECT_EQ(slots(320000, 1, 16000, 8), 400);
}

TEST(Preprocessor, SoundsDifferByTheirLevels) {
  const Preprocessor prepare(parsed(""), {});
  const auto hash = [&](double hertz, std::size_t count) {
    return item_of(prepare.audio(testing::wav_of(testing::sine(hertz, 16000, count), 1, 16000, 16), pool()))
        .content_hash;
  };
  EXPECT_EQ(hash(440, 1600), hash(440, 1600));
  EXPECT_NE(hash(440, 1600), hash(880, 1600));
  EXPECT_NE(hash(440, 1600), hash(440, 2400));
}

TEST(Preprocessor, MayBeUsedByManyThreads) {
  const Preprocessor prepare(parsed(""), {});
  const auto picture = png_of(patterned({50, 30}));
  const auto sound = testing::wav_of(testing::sine(440, 44100, 9000), 1, 44100, 16);
  std::vector<ContentHash> hashes(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    threads.emplace_back([&, i] {
      ThreadPool own(1);
      hashes[i] = item_of(i % 2 == 0 ? prepare.image(picture, own) : prepare.audio(sound, own)).content_hash;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 2; i < hashes.size(); ++i) EXPECT_EQ(hashes[i], hashes[i - 2]);
}

TEST(Preprocessor, AModelWithoutATowerRefuses) {
  const Preprocessor prepare({}, {});
  EXPECT_THAT(prepare.image(png_of(patterned({2, 2})), pool()).error().message,
              HasSubstr("does not take pictures"));
  EXPECT_THAT(prepare.audio(testing::wav_of(std::vector<float>(9), 1, 16000, 16), pool()).error().message,
              HasSubstr("does not take sounds"));
}

}  // namespace
}  // namespace inkstone::media
