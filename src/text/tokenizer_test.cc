// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/real_tokenizer.h"
#include "text/byte_pair.h"
#include "text/detokenizer.h"

namespace inkstone::text {
namespace {

using test_support::mini_tokenizer;
using test_support::real_tokenizer;
using testing::ElementsAre;
using Ids = std::vector<std::int32_t>;

Ids encode(std::string_view text) { return real_tokenizer().encode_ordinary(text); }

std::vector<std::string> pieces(std::string_view text) {
  const Pretokenizer pretokenizer = *Pretokenizer::create();
  Splitter splitter(pretokenizer, text);
  std::vector<std::string> all;
  for (std::string_view piece = splitter.next(); !piece.empty(); piece = splitter.next())
    all.emplace_back(piece);
  return all;
}

TEST(Tokenizer, EncodesTheVectorsOfTheFormat) {
  const std::vector<std::pair<std::string, Ids>> vectors = {
      {"", {}},
      {"Hello world", {13225, 2375}},
      {"hello  world", {24912, 220, 2375}},
      {"hello   world\n\n  x", {24912, 256, 2375, 279, 220, 1215}},
      {"don't DON'T we'LL", {91418, 153384, 581, 6, 7454}},
      {"1234567", {7633, 19354, 22}},
      {"3.14159", {18, 13, 16926, 4621}},
      {"HTTPServer2", {17893, 6444, 17}},
      {"ABc aBC", {2912, 66, 261, 7551}},
      {"日本語テスト", {9048, 40909, 16056, 38236}},
      {"café naïve", {66, 103112, 153475, 737}},
      {"e\u0301", {68, 13430}},
      {"नमस्ते", {998, 1637, 14681, 628}},
      {"🦀", {4103, 99, 222}},
      {"👩‍👩‍👧", {28823, 102, 2524, 28823, 102, 2524, 28823, 100}},
      {"a/b//c\n", {64, 7611, 393, 66, 198}},
      {"\t\tif (x) {\r\n", {197, 1224, 350, 87, 8, 1518}},
      {"  ", {256}},
      {"مرحبا", {158894, 26537}},
      {"Ⅷ²½", {25371, 100, 13848, 27124}},
      {"get_weather", {522, 170154}},
      {"tool_declare", {17952, 5047, 44660}},
      {"Thinking effort level: 0.9", {133850, 6942, 3211, 25, 220, 15, 13, 24}},
      {"<|end_message|>", {27, 91, 419, 13968, 91, 29}},
      {"<|content_text|>", {27, 91, 3252, 9118, 91, 29}},
  };
  for (const auto& [text, ids] : vectors) EXPECT_EQ(encode(text), ids) << text;
}

TEST(Tokenizer, AgreesWithEveryRecordedVectorAndDecodesItBack) {
  std::istringstream lines(test_support::read_source_file("tests/data/tokenizer/vectors.jsonl"));
  int num_vectors = 0;
  for (std::string line; std::getline(lines, line); ++num_vectors) {
    const auto vector = nlohmann::json::parse(line);
    const auto text = vector["text"].get<std::string>();
    const Ids ids = vector["ids"].get<Ids>();
    EXPECT_EQ(encode(text), ids) << text;
    EXPECT_EQ(real_tokenizer().decode(ids, Tokenizer::Specials::kSkip), text);
  }
  EXPECT_EQ(num_vectors, 1252);
}

TEST(Pretokenizer, FollowsTheClassesWhereMatchersDiffer) {
  EXPECT_THAT(pieces("あB"), ElementsAre("あ", "B"));
  // White_Space holds U+0085, U+00A0 and U+3000, but neither U+FEFF, U+200B nor U+180E.
  EXPECT_THAT(pieces("\u0085\u00a0\u3000"), ElementsAre("\u0085\u00a0\u3000"));
  EXPECT_THAT(pieces("!\ufeff!"), ElementsAre("!\ufeff!"));
  EXPECT_THAT(pieces("!\u200b!"), ElementsAre("!\u200b!"));
  EXPECT_THAT(pieces("!\u180e!"), ElementsAre("!\u180e!"));
  EXPECT_THAT(pieces("!\u0085!"), ElementsAre("!", "\u0085", "!"));
  // A mark may lead a word, and stays with its letter.
  EXPECT_THAT(pieces("1\u0301a"), ElementsAre("1", "\u0301a"));
  EXPECT_THAT(pieces("it's IT'S it\u2019s"), ElementsAre("it's", " IT'S", " it", "\u2019s"));
  EXPECT_THAT(pieces("it'\u017f x"), ElementsAre("it'\u017f", " x"));
  EXPECT_THAT(pieces("a \r\n\n  b   "), ElementsAre("a", " \r\n\n", " ", " b", "   "));
  EXPECT_THAT(pieces("1234 ?!/\r\n/x"), ElementsAre("123", "4", " ?!/\r\n/", "x"));
}

TEST(Pretokenizer, TakesAMegabyteAsOnePiece) {
  for (const std::string_view unit : {"a", "A", " ", "!", "\n", "\u0301", "あ"}) {
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    EXPECT_EQ(pieces(text).size(), 1U) << unit;
  }
}

// Letters in both word classes: the first alternative gives back a megabyte before the second one takes it.
TEST(Pretokenizer, BacktracksOverALongWord) {
  EXPECT_THAT(pieces(std::string(1 << 20, 'A') + "\u3042B"),
              ElementsAre(std::string(1 << 20, 'A') + "\u3042", "B"));
}

TEST(BytePair, MergesAlikeByScanAndByQueue) {
  std::mt19937 random(7);
  const std::vector<TokenEntry> entries =
      parse_tiktoken(test_support::read_source_file("tests/data/tokenizer/o200k_base.tiktoken"))->ordinary;
  const RankTable ranks(entries);
  for (int round = 0; round < 2000; ++round) {
    std::string piece;
    const std::size_t size = 1 + random() % kLongestScannedPiece;
    const unsigned letters = 1 + random() % 26;
    while (piece.size() < size) piece.push_back(static_cast<char>('a' + random() % letters));
    Ids scanned;
    Ids queued;
    merge_by_scan(ranks, piece, scanned);
    merge_by_queue(ranks, piece, queued);
    ASSERT_EQ(scanned, queued) << piece;
  }
}

// A vocabulary of random words over two letters, in random order of rank: merges unlock others of lower rank
// all the time.
RankTable random_words(std::mt19937& random) {
  std::set<std::string> words = {"a", "b"};
  for (std::size_t count = 4 + random() % 40; words.size() < count;) {
    std::string word;
    for (std::size_t size = 2 + random() % 5; word.size() < size;)
      word.push_back(random() % 2 == 0 ? 'a' : 'b');
    words.insert(word);
  }
  std::vector<std::string> order(words.begin(), words.end());
  std::shuffle(order.begin(), order.end(), random);
  std::vector<TokenEntry> entries;
  for (const std::string& word : order) entries.push_back({word, static_cast<std::int32_t>(entries.size())});
  return RankTable(entries);
}

TEST(BytePair, MergesAlikeWhateverTheRanks) {
  std::mt19937 random(8);
  for (int table = 0; table < 400; ++table) {
    const RankTable ranks = random_words(random);
    for (int round = 0; round < 20; ++round) {
      std::string piece;
      for (std::size_t size = 1 + random() % kLongestScannedPiece; piece.size() < size;) {
        piece.push_back(random() % 16 == 0 ? 'b' : 'a');
      }
      Ids scanned;
      Ids queued;
      merge_by_scan(ranks, piece, scanned);
      merge_by_queue(ranks, piece, queued);
      ASSERT_EQ(scanned, queued) << piece;
    }
  }
}

TEST(Tokenizer, ReadsTheMiniCheckpoint) {
  const Tokenizer& mini = mini_tokenizer();
  EXPECT_EQ(mini.vocabulary_size(), 2040);
  EXPECT_EQ(mini.special_id("<|content_model_end_sampling|>"), 2007);
  EXPECT_EQ(mini.token_bytes(258), " t");
  EXPECT_FALSE(mini.is_special(1999));
  EXPECT_TRUE(mini.is_special(2000));
  EXPECT_TRUE(mini.is_special(2040));  // a padding row of the head
  EXPECT_FALSE(mini.is_known(2040));
  EXPECT_TRUE(mini.is_special(-1));
  const std::string text = "The cat's 12 hats: \xF0\x9F\xA6\x80\n";
  EXPECT_EQ(mini.decode(mini.encode_ordinary(text), Tokenizer::Specials::kSkip), text);
}

TEST(Tokenizer, FindsSpecialsOnlyWhereAsked) {
  const std::string text = "a<|end_message|><|content_text|>b<|end_message";
  const Tokenizer& real = real_tokenizer();
  EXPECT_EQ(real.encode_with_specials(text), (Ids{64, 200010, 200004, 65, 27, 91, 419, 13968}));
  for (const std::int32_t id : real.encode_ordinary(text)) EXPECT_FALSE(real.is_special(id));
  EXPECT_EQ(real.decode(real.encode_with_specials(text), Tokenizer::Specials::kSpell), text);
  EXPECT_EQ(real.decode(real.encode_with_specials(text), Tokenizer::Specials::kSkip), "ab<|end_message");
}

TEST(Tokenizer, PrefersTheLongestSpecialSpelling) {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.ordinary.push_back({std::string(1, static_cast<char>(byte)), byte});
  vocabulary.special = {{"<x", 300}, {"<x>y", 301}, {"<x>", 302}};
  const Tokenizer tokenizer = *Tokenizer::from_vocabulary(vocabulary);
  EXPECT_EQ(tokenizer.encode_with_specials("<x>y<x><x!"), (Ids{301, 302, 300, '!'}));
}

TEST(Tokenizer, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(encode("a\xff\xe3\x81"), encode("a\ufffd\ufffd"));
  EXPECT_EQ(encode("\xed\xa0\x80"), encode("\ufffd\ufffd\ufffd"));  // a surrogate spelled in UTF-8
}

TEST(Tokenizer, MayBeSharedByThreads) {
  const Ids expected = encode("Several threads read one tokenizer. 多線程");
  std::vector<std::thread> threads;
  std::array<bool, 4> equal{};
  for (std::size_t idx = 0; idx < equal.size(); ++idx) {
    threads.emplace_back([&, idx] {
      equal[idx] = true;
      for (int round = 0; round < 200; ++round) {
        equal[idx] = equal[idx] && encode("Several threads read one tokenizer. 多線程") == expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(equal, testing::Each(true));
}

TEST(Detokenizer, HoldsAnUnfinishedCharacterBack) {
  Detokenizer detokenizer(real_tokenizer());
  std::string text;
  detokenizer.push(4103, text);
  detokenizer.push(99, text);
  EXPECT_EQ(text, "");
  detokenizer.push(222, text);
  EXPECT_EQ(text, "🦀");
  detokenizer.push(4103, text);
  detokenizer.push(200010, text);  // bytes of two blocks never meet
  EXPECT_EQ(text, "🦀\ufffd");
  detokenizer.push(99, text);
  detokenizer.push(222, text);
  EXPECT_EQ(text, "🦀\ufffd\ufffd\ufffd");
  detokenizer.push(4103, text);
  detokenizer.flush(text);
  EXPECT_EQ(text, "🦀\ufffd\ufffd\ufffd\ufffd");
}

}  // namespace
}  // namespace inkstone::text
