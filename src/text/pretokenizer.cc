// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenizer.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/check.h"

namespace inkstone::text {
namespace {

// The White_Space property, spelled out: PCRE2's \s would also take U+180E.
#define INK_SPACES R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
#define INK_UPPER R"(\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M})"
#define INK_LOWER R"(\p{Ll}\p{Lm}\p{Lo}\p{M})"
#define INK_CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"

constexpr std::string_view kPattern =
    R"([^\r\n\p{L}\p{N}]?[)" INK_UPPER "]*[" INK_LOWER "]+" INK_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?[)" INK_UPPER "]+[" INK_LOWER "]*" INK_CONTRACTION R"(|\p{N}{1,3})"
    R"(| ?[^)" INK_SPACES R"(\p{L}\p{N}]+[\r\n/]*)"
    "|[" INK_SPACES R"(]*[\r\n]+)"
    "|[" INK_SPACES "]+(?![^" INK_SPACES
    "])"
    "|[" INK_SPACES "]+";

#undef INK_SPACES
#undef INK_UPPER
#undef INK_LOWER
#undef INK_CONTRACTION

}  // namespace

struct Pretokenizer::Pattern {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;

  ~Pattern() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

struct Splitter::Match {
  pcre2_match_data* data = nullptr;
  ~Match() { pcre2_match_data_free(data); }
};

Result<Pretokenizer> Pretokenizer::create() {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto pattern = std::make_unique<Pattern>();
  pattern->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern.data()), kPattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, &error, &offset, nullptr);
  pattern->context = pcre2_match_context_create(nullptr);
  if (pattern->code == nullptr || pattern->context == nullptr) {
    return fail(ErrorKind::kFailed, fmt::format("PCRE2 cannot compile the pre-tokenizer: error {}", error));
  }
  // Without JIT (a build of PCRE2 may lack it) the interpreter gives the same pieces, only slower.
  pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
  // A piece may be megabytes long; the pattern has no exponential paths that the default limits would guard
  // against.
  pcre2_set_match_limit(pattern->context, UINT32_MAX);
  pcre2_set_depth_limit(pattern->context, UINT32_MAX);
  return Pretokenizer(std::move(pattern));
}

Pretokenizer::Pretokenizer(std::unique_ptr<const Pattern> pattern) : pattern_(std::move(pattern)) {}
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

Splitter::Splitter(const Pretokenizer& pretokenizer, std::string_view utf8)
    : pretokenizer_(pretokenizer), text_(utf8), match_(std::make_unique<Match>()) {
  match_->data = pcre2_match_data_create(1, nullptr);
  INK_CHECK(match_->data != nullptr, "out of memory");
}

Splitter::~Splitter() = default;

std::string_view Splitter::next() {
  if (at_ == text_.size()) return {};
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(pretokenizer_.pattern_->code, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(),
                       at_, options | PCRE2_NO_UTF_CHECK, match_->data, pretokenizer_.pattern_->context);
  };
  int result = match(0);
  // JIT code runs on a small stack; the interpreter keeps its frames on the heap.
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
  // Some alternative matches at every position of valid UTF-8.
  INK_CHECK(result > 0, fmt::format("pre-tokenizer: PCRE2 error {}", result));
  const std::size_t end = pcre2_get_ovector_pointer(match_->data)[1];
  INK_CHECK(end > at_);
  const std::string_view piece = text_.substr(at_, end - at_);
  at_ = end;
  return piece;
}

}  // namespace inkstone::text
