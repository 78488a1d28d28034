// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/files/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "checkpoint/files/mapped_file.h"
#include "checkpoint/files/safetensors_writer.h"
#include "tests/support/editable_checkpoint.h"

namespace inkstone::checkpoint {
namespace {

using testing::HasSubstr;

std::vector<std::byte> file_of(const std::string& header, std::size_t payload_bytes) {
  std::vector<std::byte> bytes(8 + header.size() + payload_bytes);
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}

Result<std::vector<StoredTensor>> parse(const std::string& header, std::size_t payload_bytes) {
  return parse_safetensors(file_of(header, payload_bytes), "x.safetensors");
}

std::string error_of(const std::string& header, std::size_t payload_bytes) {
  const auto parsed = parse(header, payload_bytes);
  return parsed ? "" : parsed.error().message;
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const auto parsed = parse(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"scalar":{"dtype":"U8","shape":[],"data_offsets":[16,17]}}  )",
      17);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 3U);
  EXPECT_EQ((*parsed)[0].name, "a");
  EXPECT_EQ((*parsed)[1].name, "b");
  EXPECT_EQ((*parsed)[1].shape, (Shape{2, 3}));
  EXPECT_EQ((*parsed)[1].end - (*parsed)[1].begin, 12U);
  EXPECT_EQ((*parsed)[2].shape.rank(), 0);
}

TEST(Safetensors, ReadsEmptyTensors) {
  EXPECT_EQ(error_of(R"({"a":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]}})", 0), "");
  EXPECT_EQ(error_of("{}", 0), "");
}

TEST(Safetensors, KnowsTypesThatNoInklingUses) {
  const auto parsed = parse(R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_FALSE((*parsed)[0].type);
  EXPECT_THAT(error_of(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2),
              HasSubstr("impossible shape"));
}

TEST(Safetensors, RefusesWhatIsNoHeader) {
  EXPECT_THAT(parse_safetensors({}, "x").error().message, HasSubstr("holds only 0 bytes"));
  EXPECT_THAT(error_of("[]", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(error_of("{", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(R"({"a":3})", 0), HasSubstr("tensor a has no dtype"));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"F32","shape":[1]}})", 4), HasSubstr("tensor a has no data_offsets"));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
              HasSubstr("no list of sizes"));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4),
              HasSubstr("no list of sizes"));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4),
              HasSubstr("9 axes"));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
              HasSubstr("ends before it begins"));
}

TEST(Safetensors, RefusesHeadersThatCannotBe) {
  std::vector<std::byte> bytes(16, std::byte{0x20});
  const std::uint64_t length = kMaxSafetensorsHeaderBytes + 1;
  std::memcpy(bytes.data(), &length, 8);
  EXPECT_THAT(parse_safetensors(bytes, "x").error().message, HasSubstr("would take 100000001 bytes"));
  const std::uint64_t beyond = std::numeric_limits<std::uint64_t>::max();
  std::memcpy(bytes.data(), &beyond, 8);
  EXPECT_THAT(parse_safetensors(bytes, "x").error().message, HasSubstr("not a safetensors file"));
}

TEST(Safetensors, RefusesOverlapHoleAndRest) {
  const char* two =
      R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},"b":{{"dtype":"U8","shape":[4],"data_offsets":[{},{}]}}}})";
  EXPECT_EQ(error_of(fmt::format(fmt::runtime(two), 4, 8), 8), "");
  EXPECT_THAT(error_of(fmt::format(fmt::runtime(two), 3, 7), 7), HasSubstr("tensors a and b overlap"));
  EXPECT_THAT(error_of(fmt::format(fmt::runtime(two), 6, 10), 10),
              HasSubstr("2 bytes before tensor b belong to no tensor"));
  EXPECT_THAT(error_of(fmt::format(fmt::runtime(two), 4, 8), 9),
              HasSubstr("the last 1 bytes belong to no tensor"));
  EXPECT_THAT(error_of(fmt::format(fmt::runtime(two), 4, 8), 7),
              HasSubstr("is truncated: tensor b ends at byte 8"));
}

TEST(Safetensors, RefusesSizesThatOverflow) {
  EXPECT_THAT(error_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
              HasSubstr("impossible shape"));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"F32","shape":[2305843009213693952,2],"data_offsets":[0,0]}})", 0),
              HasSubstr("impossible shape"));
  EXPECT_THAT(
      error_of(
          R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,18446744073709551616]}})",
          4),
      HasSubstr("data_offsets"));
}

TEST(Safetensors, RefusesDuplicateKeysAndDeepNesting) {
  EXPECT_THAT(
      error_of(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2),
      HasSubstr("names 'a' twice"));
  EXPECT_THAT(error_of(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("names 'dtype' twice"));
  std::string deep = R"({"a":)";
  deep += std::string(100'000, '[');
  EXPECT_THAT(error_of(deep, 0), HasSubstr("nests more than"));
}

TEST(SafetensorsWriter, WritesAlignedTensorsInAnyOrder) {
  const test_support::TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  auto writer =
      SafetensorsWriter::create(path, {{"small", ScalarType::kU8, {3}}, {"wide", ScalarType::kI64, {2}}});
  ASSERT_TRUE(writer) << writer.error().message;
  const std::int64_t values[] = {5, -6};
  const std::byte bytes[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(writer->write("small", 1, std::span(bytes).subspan(1)));
  ASSERT_TRUE(writer->write("wide", 0, std::as_bytes(std::span(values))));
  ASSERT_TRUE(writer->write("small", 0, std::span(bytes).first(1)));
  ASSERT_TRUE(writer->close());
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  const auto tensors = parse_safetensors(file->bytes(), path);
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ((*tensors)[0].name, "wide");
  EXPECT_EQ((*tensors)[0].begin % 8, 0U);
  EXPECT_EQ(std::memcmp(file->bytes().data() + (*tensors)[0].begin, values, 16), 0);
  EXPECT_EQ(std::memcmp(file->bytes().data() + (*tensors)[1].begin, bytes, 3), 0);
  EXPECT_FALSE(SafetensorsWriter::create(path, {}));  // never over an existing file
}

}  // namespace
}  // namespace inkstone::checkpoint
