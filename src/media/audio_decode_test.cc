// SPDX-License-Identifier: Apache-2.0
#include "media/audio_decode.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>

#include "tests/support/media_files.h"

namespace inkstone::media {
namespace {

using inkstone::testing::Bytes;
using inkstone::testing::bytes_of;
using inkstone::testing::sine;
using inkstone::testing::SoundKind;
using inkstone::testing::wav_of;
using ::testing::HasSubstr;

std::string error_of(const Bytes& encoded, const AudioLimits& limits = {}) {
  const auto result = decode_audio(encoded, limits);
  return result ? "decoded" : result.error().message;
}

void set_u32(Bytes& file, std::size_t at, std::uint32_t value) { std::memcpy(file.data() + at, &value, 4); }

TEST(AudioDecode, WavOfEveryWidthIsExact) {
  const std::vector<float> samples = {0.0F, 0.5F, -0.5F, -1.0F, 0.25F, -0.0078125F};
  for (const int bits : {8, 16, 24, 32, -32}) {
    const auto sound = decode_audio(wav_of(samples, 1, 16000, bits));
    ASSERT_TRUE(sound) << sound.error().message;
    EXPECT_EQ(sound->rate, 16000);
    EXPECT_EQ(sound->samples, samples) << bits;
  }
}

TEST(AudioDecode, ChannelsAreAveraged) {
  const auto sound = decode_audio(wav_of(std::vector<float>{0.5F, -0.25F, 1.0F / 32768, 0.0F}, 2, 44100, 16));
  ASSERT_TRUE(sound);
  EXPECT_EQ(sound->samples, (std::vector<float>{0.125F, 0.5F / 32768}));
  const auto many = decode_audio(wav_of(std::vector<float>(30, 0.25F), 6, 8000, 24));
  ASSERT_TRUE(many);
  EXPECT_EQ(many->samples, std::vector<float>(5, 0.25F));
}

TEST(AudioDecode, CompressedSoundsComeBack) {
  const std::vector<float> samples = sine(440, 44100, 44100);
  for (const auto kind : {SoundKind::kFlac, SoundKind::kOgg, SoundKind::kMp3}) {
    const Bytes file = testing::sound_of(samples, 1, 44100, kind);
    if (file.empty()) GTEST_SKIP() << "libsndfile has no encoder";
    const auto sound = decode_audio(file);
    ASSERT_TRUE(sound) << sound.error().message;
    ASSERT_GE(sound->samples.size(), samples.size());
    double difference = 0;
    for (std::size_t i = 2000; i < 40000; ++i)
      difference = std::max(difference, std::fabs(static_cast<double>(sound->samples[i]) - samples[i]));
    EXPECT_LT(difference, kind == SoundKind::kFlac ? 1.0 / 32768 : 0.05) << static_cast<int>(kind);
  }
}

// B50: a data size beyond the end, as streaming writers leave it, means "to the end".
TEST(AudioDecode, WrongDataSizeEndsWithTheFile) {
  const std::vector<float> samples = sine(100, 16000, 999);
  const auto whole = decode_audio(wav_of(samples, 1, 16000, 16));
  for (const std::uint32_t size : {2000U, 0x7fffff00U, 0xffffffffU}) {
    Bytes file = wav_of(samples, 1, 16000, 16);
    set_u32(file, 40, size);
    const auto sound = decode_audio(file);
    ASSERT_TRUE(sound) << size << " " << sound.error().message;
    EXPECT_EQ(sound->samples, whole->samples) << size;
    set_u32(file, 4, 0xffffffffU);
    EXPECT_EQ(error_of(file), "decoded") << size;
  }
}

TEST(AudioDecode, OtherChunksAreSkipped) {
  Bytes file = wav_of(std::vector<float>{0.5F, 0.25F}, 1, 16000, 16);
  const Bytes extra = bytes_of(std::string("LIST\x03\0\0\0abc\0", 12));  // an odd size, padded
  file.insert(file.begin() + 36, extra.begin(), extra.end());
  set_u32(file, 4, static_cast<std::uint32_t>(file.size() - 8));
  const auto sound = decode_audio(file);
  ASSERT_TRUE(sound) << sound.error().message;
  EXPECT_EQ(sound->samples, (std::vector<float>{0.5F, 0.25F}));
}

TEST(AudioDecode, SilentlyEmptySoundsAreRefused) {
  EXPECT_THAT(error_of(wav_of({}, 1, 16000, 16)), HasSubstr("WAV: no samples"));
}

TEST(AudioDecode, OneSampleIsASound) {
  EXPECT_EQ(error_of(wav_of(std::vector<float>{0.1F}, 1, 16000, 16)), "decoded");
}

TEST(AudioDecode, SamplesThatAreNotNumbersAreRefused) {
  const std::vector<float> samples = {0.1F, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THAT(error_of(wav_of(samples, 1, 16000, -32)), HasSubstr("not finite"));
}

TEST(AudioDecode, ContentDecides) {
  EXPECT_THAT(error_of({}), HasSubstr("not a WAV, FLAC, OGG or MP3"));
  EXPECT_THAT(error_of(bytes_of("just a text, not a sound")), HasSubstr("not a WAV"));
  EXPECT_THAT(error_of(testing::png_of(testing::patterned({2, 2}))), HasSubstr("not a WAV"));
  EXPECT_THAT(error_of(bytes_of("fLaC and then nothing that it should be")), HasSubstr("FLAC: "));
  EXPECT_THAT(error_of(bytes_of(std::string("RIFF\x10\0\0\0WAVEjunk", 16))), HasSubstr("WAV: "));
}

TEST(AudioDecode, ShortenedFlacIsAnErrorAndShortenedMp3IsShorter) {
  const std::vector<float> samples = sine(440, 16000, 32000);
  Bytes flac = testing::sound_of(samples, 1, 16000, SoundKind::kFlac);
  flac.resize(flac.size() / 2);
  EXPECT_THAT(error_of(flac), HasSubstr("FLAC: "));
  Bytes mp3 = testing::sound_of(samples, 1, 16000, SoundKind::kMp3);
  if (mp3.empty()) GTEST_SKIP() << "libsndfile has no MP3 encoder";
  mp3.resize(mp3.size() / 2);
  const auto sound = decode_audio(mp3);
  ASSERT_TRUE(sound) << sound.error().message;
  EXPECT_GT(sound->samples.size(), 10000U);
  EXPECT_LT(sound->samples.size(), 20000U);
}

TEST(AudioDecode, LengthAndRateAreLimitedByTheHeader) {
  const Bytes file = wav_of(std::vector<float>(1600, 0.0F), 1, 16000, 16);
  AudioLimits limits;
  limits.max_seconds = 0.099;
  EXPECT_THAT(error_of(file, limits), HasSubstr("1600 samples at 16000 a second last 0.1 s"));
  EXPECT_EQ(decode_audio(file, limits).error().kind, ErrorKind::kTooLarge);
  limits.max_encoded_bytes = 100;
  EXPECT_THAT(error_of(file, limits), HasSubstr("bytes; at most 100"));
  for (const std::uint32_t rate : {0U, 7U, 4000000000U}) {
    Bytes odd = file;
    set_u32(odd, 24, rate);
    EXPECT_NE(error_of(odd), "decoded") << rate;
  }
}

}  // namespace
}  // namespace inkstone::media
