// SPDX-License-Identifier: Apache-2.0
// Every kind of bad checkpoint is refused with one line that names the thing at fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "checkpoint/checkpoint.h"
#include "tests/support/editable_checkpoint.h"
#include "tests/support/hf_layout.h"

namespace inkstone::checkpoint {
namespace {

namespace fs = std::filesystem;
using test_support::EditableCheckpoint;
using test_support::EditableTensor;
using test_support::TemporaryFolder;
using testing::HasSubstr;
using testing::Not;

const std::string kMini = INKSTONE_SOURCE_DIR "/models/inkling-mini";
const std::string kMiniNvfp4 = INKSTONE_SOURCE_DIR "/models/inkling-mini-nvfp4";
const std::string kShard = "model-00001-of-00001.safetensors";
const std::string kIndex = "model.safetensors.index.json";

using Edit = std::function<void(EditableCheckpoint&)>;
using Break = std::function<void(const std::string& folder)>;

std::string error_of(const std::string& folder) {
  const auto opened = Checkpoint::open(folder);
  if (opened) return "";
  EXPECT_THAT(opened.error().message, Not(HasSubstr("\n")));
  EXPECT_LT(opened.error().message.size(), 1500U);
  return opened.error().message;
}

// Two heads are as good as eight for finding damage, and a third less to write.
void two_heads(std::string& config) {
  const std::size_t from = config.find("\"num_nextn_predict_layers\": 8");
  const std::size_t to = config.find("\"chain_hidden_post_norm\"");
  const std::size_t ids = config.find("\"local_layer_ids\"", to);
  config.replace(ids, config.find(']', ids) + 1 - ids, "\"local_layer_ids\": [0]");
  config.replace(from, to - from, "\"num_nextn_predict_layers\": 2, ");
}

std::string after_edit(const std::string& from, const Edit& edit,
                       const test_support::SaveOptions& save = {}) {
  static std::map<std::string, EditableCheckpoint> loaded;
  if (!loaded.contains(from)) {
    loaded[from] = EditableCheckpoint::load(from).value();
    for (int depth = 2; depth < 8; ++depth) loaded[from].drop("model.mtp.layers." + std::to_string(depth));
    two_heads(loaded[from].texts.at("config.json"));
  }
  EditableCheckpoint checkpoint = loaded[from];
  edit(checkpoint);
  const TemporaryFolder folder;
  EXPECT_TRUE(checkpoint.save(folder / "m", save));
  return error_of(folder / "m");
}

std::string after_break(const Break& damage) {
  const TemporaryFolder folder;
  fs::copy(kMini, folder / "m", fs::copy_options::recursive);
  damage(folder / "m");
  return error_of(folder / "m");
}

void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = test_support::read_bytes(path);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  fs::remove(path);
  test_support::write_bytes(path, text);
}

void set_bf16(EditableTensor& tensor, std::size_t index, std::uint16_t bits) {
  std::memcpy(tensor.bytes.data() + 2 * index, &bits, 2);
}

TEST(Damage, NothingIsWrongWithAnUntouchedCopy) {
  EXPECT_EQ(after_break([](const std::string&) {}), "");
  EXPECT_EQ(after_edit(kMini, [](EditableCheckpoint&) {}), "");
  EXPECT_EQ(after_edit(kMiniNvfp4, [](EditableCheckpoint&) {}), "");
}

TEST(Damage, FolderAbsentOrEmpty) {
  EXPECT_THAT(error_of("/nowhere/at/all"), HasSubstr("/nowhere/at/all/config.json does not exist"));
  const TemporaryFolder folder;
  fs::copy(kMini + "/config.json", folder / "config.json");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("holds no safetensors file"));
}

TEST(Damage, FileTruncated) {
  EXPECT_THAT(after_break([](const std::string& f) { fs::resize_file(f + "/" + kShard, 5'000'000); }),
              HasSubstr(kShard + " is truncated"));
  EXPECT_THAT(after_break([](const std::string& f) { fs::resize_file(f + "/" + kShard, 100); }),
              HasSubstr(kShard + " is truncated or not a safetensors file"));
  EXPECT_THAT(after_break([](const std::string& f) { fs::resize_file(f + "/mtp.safetensors", 0); }),
              HasSubstr("mtp.safetensors is not a safetensors file: it holds only 0 bytes"));
}

TEST(Damage, FileTooLong) {
  EXPECT_THAT(after_break([](const std::string& f) { fs::resize_file(f + "/" + kShard, 20'000'000); }),
              HasSubstr("bytes belong to no tensor"));
}

TEST(Damage, FileOfAnotherFormat) {
  const auto pickled = [](const std::string& f) {
    test_support::write_bytes(f + "/" + kShard, std::string(4096, 'P'));
  };
  EXPECT_THAT(after_break(pickled), HasSubstr(kShard + " is not a safetensors file"));
}

TEST(Damage, FileAbsentThoughIndexed) {
  EXPECT_THAT(after_break([](const std::string& f) { fs::remove(f + "/mtp.safetensors"); }),
              HasSubstr("file mtp.safetensors named by model.safetensors.index.json does not exist"));
  EXPECT_THAT(after_break([](const std::string& f) { fs::remove(f + "/" + kShard); }), HasSubstr(kShard));
}

TEST(Damage, FileThatIsADirectory) {
  EXPECT_THAT(after_break([](const std::string& f) {
                fs::remove(f + "/mtp.safetensors");
                fs::create_directory(f + "/mtp.safetensors");
              }),
              HasSubstr("mtp.safetensors is not a regular file"));
}

TEST(Damage, IndexDisagreesWithHeaders) {
  const std::string norm = "\"model.llm.norm.weight\"";
  EXPECT_THAT(
      after_break([&](const std::string& f) { replace_in(f + "/" + kIndex, norm, "\"model.llm.other\""); }),
      testing::AllOf(HasSubstr("places tensor model.llm.other in " + kShard + ", which lacks it"),
                     HasSubstr("tensor model.llm.norm.weight of " + kShard + " is missing in")));
  EXPECT_THAT(after_break([&](const std::string& f) {
                replace_in(f + "/" + kIndex, norm + ": \"" + kShard, norm + ": \"mtp.safetensors");
              }),
              HasSubstr("places tensor model.llm.norm.weight in mtp.safetensors, it stands in " + kShard));
  EXPECT_THAT(after_break([&](const std::string& f) {
                replace_in(f + "/" + kIndex, norm + ": \"" + kShard, norm + ": \"../" + kShard);
              }),
              HasSubstr("names no file of this folder for tensor model.llm.norm.weight"));
  EXPECT_THAT(after_break([&](const std::string& f) { test_support::write_bytes(f + "/" + kIndex, "{}"); }),
              HasSubstr("model.safetensors.index.json has no weight_map"));
}

TEST(Damage, TensorTwice) {
  EXPECT_THAT(
      after_break([](const std::string& f) {
        fs::copy_file(f + "/mtp.safetensors", f + "/copy.safetensors");
        fs::remove(f + "/" + kIndex);
      }),
      HasSubstr(
          "tensor model.mtp.layers.0.embed_norm.weight stands in both copy.safetensors and mtp.safetensors"));
  EXPECT_THAT(
      after_edit(
          kMini,
          [](EditableCheckpoint& c) { c.tensors["lm_head.weight"] = c.tensors["model.llm.unembed.weight"]; }),
      HasSubstr("tensors lm_head.weight and model.llm.unembed.weight are the same weight under two names"));
}

TEST(Damage, TensorMissing) {
  EXPECT_THAT(
      after_edit(kMini,
                 [](EditableCheckpoint& c) { c.tensors.erase("model.llm.layers.3.attn.wr_du.weight"); }),
      HasSubstr("tensor model.llm.layers.3.attn.wr_du.weight is missing"));
  EXPECT_THAT(
      after_edit(kMini,
                 [](EditableCheckpoint& c) { c.tensors.erase("model.mtp.layers.1.input_proj.weight"); }),
      HasSubstr("tensor model.mtp.layers.1.input_proj.weight is missing"));
  EXPECT_THAT(
      after_edit(kMini, [](EditableCheckpoint& c) { c.tensors.erase("model.visual.final_norm.weight"); }),
      HasSubstr("tensor model.visual.final_norm.weight is missing"));
}

TEST(Damage, ManyTensorsMissingAreCounted) {
  EXPECT_THAT(after_edit(kMini, [](EditableCheckpoint& c) { c.drop("model.llm.layers.3.attn"); }),
              testing::AllOf(HasSubstr("tensor model.llm.layers.3.attn_norm.weight is missing"),
                             HasSubstr("and 6 more problems")));
}

TEST(Damage, HalfOfAPairMissing) {
  EXPECT_THAT(after_edit(kMini,
                         [](EditableCheckpoint& c) {
                           test_support::to_hf_names(c);
                           c.tensors.erase("model.language_model.layers.0.mlp.up_proj.weight");
                         }),
              HasSubstr("tensor model.llm.layers.0.mlp.w13_dn.weight/up is missing"));
}

TEST(Damage, TensorExtra) {
  EXPECT_THAT(after_edit(kMini,
                         [](EditableCheckpoint& c) {
                           c.tensors["model.llm.layers.8.attn_norm.weight"] =
                               c.tensors["model.llm.norm.weight"];
                         }),
              HasSubstr("tensor model.llm.layers.8.attn_norm.weight is not part of the model"));
  EXPECT_EQ(after_edit(kMini,
                       [](EditableCheckpoint& c) {
                         c.tensors["optimizer.step"] = c.tensors["model.llm.norm.weight"];
                       }),
            "");  // not ours: ignored with a warning
}

TEST(Damage, TensorOfTheWrongType) {
  EXPECT_THAT(
      after_edit(kMini,
                 [](EditableCheckpoint& c) {
                   c.tensors["model.llm.layers.2.mlp.gate.bias"] = {"BF16", {16}, std::vector<std::byte>(32)};
                 }),
      HasSubstr("tensor model.llm.layers.2.mlp.gate.bias is BF16, expected F32"));
  EXPECT_THAT(
      after_edit(kMini, [](EditableCheckpoint& c) { c.tensors["model.llm.embed.weight"].dtype = "F16"; }),
      HasSubstr("tensor model.llm.embed.weight is F16, expected BF16"));
  EXPECT_THAT(
      after_edit(kMini, [](EditableCheckpoint& c) { c.tensors["model.llm.norm.weight"].dtype = "F12"; }),
      HasSubstr("tensor model.llm.norm.weight has the unknown dtype 'F12'"));
}

TEST(Damage, ConvolutionInF32ThatBf16CannotHold) {
  EXPECT_THAT(after_edit(kMini,
                         [](EditableCheckpoint& c) {
                           test_support::to_wide_convolutions(c);
                           c.tensors["model.llm.layers.0.attn_sconv.weight"].bytes[0] = std::byte{1};
                         }),
              HasSubstr("tensor model.llm.layers.0.attn_sconv.weight is F32 and holds"));
}

TEST(Damage, TensorOfTheWrongShape) {
  EXPECT_THAT(
      after_edit(kMini,
                 [](EditableCheckpoint& c) {
                   c.tensors["model.llm.layers.0.attn.wr_du.weight"].shape = {128, 64};
                 }),
      HasSubstr("tensor model.llm.layers.0.attn.wr_du.weight has shape [128, 64], expected [64, 128]"));
  EXPECT_THAT(
      after_edit(kMini, [](EditableCheckpoint& c) { c.tensors["model.llm.norm.weight"].shape = {129}; }),
      HasSubstr("tensor model.llm.norm.weight takes 256 bytes, its shape [129] of BF16 needs 258"));
  EXPECT_THAT(after_edit(kMini,
                         [](EditableCheckpoint& c) {
                           c.tensors["model.visual.layers.linear_1.weight"].shape = {256, 640};
                         }),
              HasSubstr("model.visual.layers.norm_1.weight"));
}

TEST(Damage, WidthOfTheConfigurationIsNotThatOfTheTensors) {
  const auto widen = [](const char* from, const char* to) {
    return [=](EditableCheckpoint& c) {
      std::string& config = c.texts.at("config.json");
      config.replace(config.find(from), std::strlen(from), to);
    };
  };
  EXPECT_THAT(after_edit(kMini, widen("\"intermediate_size\": 64", "\"intermediate_size\": 3072")),
              testing::AllOf(HasSubstr("says width 3072"), HasSubstr("experts.w2_weight has 64")));
  EXPECT_THAT(after_edit(kMiniNvfp4, widen("\"intermediate_size\": 64", "\"intermediate_size\": 32")),
              testing::AllOf(HasSubstr("says width 32"), HasSubstr("experts.w2_weight has 64")));
  EXPECT_THAT(
      after_edit(kMini, widen("\"dense_intermediate_size\": 256", "\"dense_intermediate_size\": 512")),
      testing::AllOf(HasSubstr("says width 512"), HasSubstr("w2_md.weight has 256")));
}

TEST(Damage, CompanionMissingExtraOrWrong) {
  const std::string bank = "model.llm.layers.4.mlp.experts.w13_weight";
  for (const char* tail : {".scale", ".scale2", ".input_amax", ".original_shape"})
    EXPECT_THAT(after_edit(kMiniNvfp4, [&](EditableCheckpoint& c) { c.tensors.erase(bank + tail); }),
                HasSubstr("tensor " + bank + tail + " is missing"));
  EXPECT_THAT(after_edit(kMini,
                         [&](EditableCheckpoint& c) {
                           c.tensors[bank + ".scale2"] = c.tensors["model.llm.layers.4.mlp.gate.bias"];
                         }),
              HasSubstr("tensor " + bank + ".scale2 is not part of the model"));
  EXPECT_THAT(after_edit(kMiniNvfp4, [&](EditableCheckpoint& c) { c.tensors[bank + ".scale"].dtype = "U8"; }),
              HasSubstr("tensor " + bank + ".scale is U8, expected F8_E4M3"));
  EXPECT_THAT(
      after_edit(kMiniNvfp4,
                 [&](EditableCheckpoint& c) { c.tensors[bank + ".original_shape"].bytes[0] = std::byte{9}; }),
      HasSubstr("tensor " + bank + ".original_shape says [9, 128, 128], expected [16, 128, 128]"));
}

TEST(Damage, QuantisedTensorThatIsExcluded) {
  EXPECT_THAT(
      after_edit(kMiniNvfp4,
                 [](EditableCheckpoint& c) {
                   std::string& quant = c.texts.at("hf_quant_config.json");
                   const std::string listed = "model.llm.layers.1.mlp.experts";
                   quant.replace(quant.find(listed), listed.size(), "model.llm.layers.2.mlp.experts");
                 }),
      HasSubstr("model.llm.layers.2.mlp.experts.w13_weight is NVFP4, hf_quant_config.json excludes it"));
  EXPECT_THAT(after_edit(kMiniNvfp4,
                         [](EditableCheckpoint& c) {
                           std::string& quant = c.texts.at("hf_quant_config.json");
                           quant.replace(quant.find("NVFP4"), 5, "MXFP4");
                         }),
              HasSubstr("hf_quant_config.json: quant_algo is \"MXFP4\"; only \"NVFP4\" is supported"));
}

TEST(Damage, WeightsThatAreNoNumbers) {
  EXPECT_THAT(after_edit(kMini,
                         [](EditableCheckpoint& c) {
                           set_bf16(c.tensors["model.llm.layers.5.attn_norm.weight"], 17, 0x7fc0);
                         }),
              HasSubstr("tensor model.llm.layers.5.attn_norm.weight holds NaN or infinity at [17]"));
  EXPECT_THAT(after_edit(kMini,
                         [](EditableCheckpoint& c) {
                           set_bf16(c.tensors["model.llm.layers.5.mlp.experts.w2_weight"], 128 * 64 + 67,
                                    0xff80);
                         }),
              HasSubstr("experts.w2_weight holds NaN or infinity at [1, 1, 3]"));
  EXPECT_THAT(after_edit(kMini,
                         [](EditableCheckpoint& c) {
                           c.tensors["model.llm.layers.5.mlp.gate.bias"].bytes[7] = std::byte{0x7f};
                           c.tensors["model.llm.layers.5.mlp.gate.bias"].bytes[6] = std::byte{0xff};
                         }),
              HasSubstr("gate.bias holds NaN or infinity at [1]"));
  EXPECT_THAT(after_edit(kMiniNvfp4,
                         [](EditableCheckpoint& c) {
                           c.tensors["model.llm.layers.5.mlp.experts.w2_weight.scale"].bytes[4] =
                               std::byte{0xff};
                         }),
              HasSubstr("model.llm.layers.5.mlp.experts.w2_weight.scale holds NaN or infinity at [0, 1, 0]"));
  EXPECT_THAT(after_edit(kMiniNvfp4,
                         [](EditableCheckpoint& c) {
                           test_support::to_compressed_tensors(c);
                           auto& divisors =
                               c.tensors["model.llm.layers.5.mlp.experts.w2_weight.weight_global_scale"];
                           std::fill(divisors.bytes.begin(), divisors.bytes.end(), std::byte{0});
                         }),
              HasSubstr("experts.w2_weight.scale2 holds NaN or infinity at [0]"));
}

TEST(Damage, ConfigurationThatIsBroken) {
  EXPECT_THAT(after_edit(kMini, [](EditableCheckpoint& c) { c.texts["config.json"] = "{\"text_config\": "; }),
              HasSubstr("config.json is not valid JSON"));
  EXPECT_THAT(after_edit(kMini, [](EditableCheckpoint& c) { c.texts.erase("config.json"); }),
              HasSubstr("config.json does not exist"));
}

TEST(Damage, LargeMisalignedTensorsAreRefusedRatherThanCopied) {
  const auto grow = [](EditableCheckpoint& c) {
    std::string& config = c.texts.at("config.json");
    const std::string key = "\"vocab_size\": 2048";
    config.replace(config.find(key), key.size(), "\"vocab_size\": 8192");
    for (const char* name : {"model.llm.embed.weight", "model.llm.unembed.weight"})
      c.tensors[name] = {"BF16", {8192, 128}, std::vector<std::byte>(8192 * 256)};
  };
  EXPECT_EQ(after_edit(kMini, grow), "");
  test_support::SaveOptions misaligned;
  misaligned.misaligned = true;
  EXPECT_THAT(after_edit(kMini, grow, misaligned),
              HasSubstr("tensor model.llm.embed.weight of " + kShard +
                        " begins at an address that is no multiple of 2"));
}

}  // namespace
}  // namespace inkstone::checkpoint
