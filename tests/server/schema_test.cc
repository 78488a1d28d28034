// SPDX-License-Identifier: Apache-2.0
// Keywords of JSON schemas: which texts are values of a schema, and which schemas are refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/server/grammar_rig.h"

namespace inkstone::test_support {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Case {
  const char* schema;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

void expect_values(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const auto form = compile(grammars(), with_schema(json::parse(c.schema)));
    ASSERT_TRUE(form) << c.schema << form.error().message;
    for (const std::string& value : c.good) EXPECT_TRUE(accepts(*form, answer(value))) << c.schema << value;
    for (const std::string& value : c.bad) EXPECT_FALSE(accepts(*form, answer(value))) << c.schema << value;
  }
}

TEST(SchemaStrings, HavePatterns) {
  expect_values({
      {R"({"type":"string","pattern":"^[A-Z]{2}-\\d{3,4}$"})",
       {R"("AB-123")", R"("ZZ-0000")"},
       {R"("AB-12")", R"("AB-12345")", R"("ab-123")", R"("xAB-123")", R"("AB-123 ")"}},
      {R"({"pattern":"b+|^x$"})", {R"("aabcc")", R"("x")", R"("b")"}, {R"("xx")", R"("a")", R"("")"}},
      {R"({"type":"string","pattern":"^(?:a|bc)*$","minLength":2,"maxLength":4})",
       {R"("aa")", R"("bc")", R"("abca")"},
       {R"("a")", R"("")", R"("aaaaa")", R"("bcab")"}},
      {R"({"pattern":"^.$"})",
       {R"("é")", R"("🦑")", R"("\"")", R"("\\")", R"("\t")"},
       {R"("\n")", R"("ab")", R"("")"}},
      {R"({"pattern":"^[^\\s\"]+$"})", {R"("añb")", R"("x/y")"}, {R"("a b")", R"("a\"b")", R"("a\tb")"}},
      {R"({"pattern":"^(?<year>[12]\\d{3})(?:-(0[1-9]|1[0-2]))?$"})",
       {R"("1999")", R"("2026-11")"},
       {R"("2026-13")"}},
      {R"({"pattern":"^\\u00e9\\x41[\\u{1f991}]$"})", {R"("éA🦑")"}, {R"("eA🦑")"}},
      {R"({"pattern":"(^|,)a$"})", {R"("a")", R"("b,a")"}, {R"("ba")"}},
      {R"({"type":["string","null"],"pattern":"^a?$"})", {R"("a")", R"("")", "null"}, {R"("b")"}},
      {R"({"pattern":"^(a*)*$"})", {R"("")", R"("aaa")"}, {R"("b")"}},
  });
}

TEST(SchemaStrings, HaveFormats) {
  expect_values({
      {R"({"format":"date"})",
       {R"("2024-02-29")", R"("2026-11-30")", R"("2000-02-29")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2026-13-01")", R"("2026-04-31")"}},
      {R"({"format":"date-time"})",
       {R"("2026-11-29T19:22:55Z")", R"("2026-11-29T00:00:00.5+01:00")"},
       {R"("2026-11-29 19:22:55Z")"}},
      {R"({"format":"time"})", {R"("23:59:59Z")"}, {R"("24:00:00Z")"}},
      {R"({"format":"duration"})",
       {R"("P1Y2M")", R"("PT5M")", R"("P3W")", R"("P1DT2H")"},
       {R"("P")", R"("PT")", R"("P1H")"}},
      {R"({"format":"uuid"})",
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567e89b12d3a456426614174000")"}},
      {R"({"format":"ipv4"})",
       {R"("127.0.0.1")", R"("255.255.255.255")"},
       {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"}},
      {R"({"format":"ipv6"})", {R"("0:0:0:0:0:0:0:1")"}, {R"("0:1")"}},
      {R"({"format":"email"})",
       {R"("ann.lee@example.org")"},
       {R"("ann@")", R"("@example.org")", R"("a..b@x.org")"}},
      {R"({"format":"hostname"})", {R"("a-b.example")"}, {R"("-a")", R"("a..b")"}},
      {R"({"format":"uri"})", {R"("https://example.org/a?b=%20")"}, {R"("example.org")", R"("https://a b")"}},
  });
}

TEST(SchemaNumbers, HaveBounds) {
  expect_values({
      {R"({"type":"number","minimum":0.5,"exclusiveMaximum":20})",
       {"0.5", "19.999", "3", "0.51", "10"},
       {"0.49", "20", "20.0", "0", "-1", "1e1", "0.4999999999999"}},
      {R"({"type":"number","exclusiveMinimum":-2.25,"maximum":-1})",
       {"-2.2", "-1", "-1.0", "-2.2499"},
       {"-2.25", "-0.5", "1", "-3"}},
      {R"({"minimum":0})", {"0", "0.001", "123456789012345"}, {"-1", "-0", "1234567890123456", "\"0\""}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
       {"0.5", "0.00001", "0.999"},
       {"0", "0.0", "1", "1.0"}},
      {R"({"type":"integer","minimum":-12,"exclusiveMaximum":105})",
       {"-12", "-1", "0", "9", "99", "104"},
       {"-13", "105", "-0", "01", "1000", "1.0"}},
      {R"({"type":"integer","minimum":1.5,"maximum":3.5})", {"2", "3"}, {"1", "4"}},
      {R"({"type":"integer","multipleOf":25,"minimum":-50,"maximum":1000})",
       {"0", "25", "-50", "975", "1000"},
       {"5", "-75", "26", "1025"}},
      {R"({"type":"number","multipleOf":10})", {"0", "120", "-10"}, {"5", "1.0", "12"}},
      {R"({"type":["integer","string"],"minimum":3,"maxLength":1})", {"3", "\"x\""}, {"2", "\"xx\""}},
  });
}

// Against arithmetic on hundredths.
TEST(SchemaNumbers, AreThoseBetweenRandomBounds) {
  std::mt19937 source(11);
  const auto draw = [&](int most) {
    return static_cast<int>(source() % static_cast<unsigned>(2 * most + 1)) - most;
  };
  const auto spell = [](int hundredths) {
    const int magnitude = std::abs(hundredths);
    return fmt::format("{}{}.{:02}", hundredths < 0 ? "-" : "", magnitude / 100, magnitude % 100);
  };
  for (int round = 0; round < 60; ++round) {
    const int low = draw(30'000);
    const int high = low + 1 + static_cast<int>(source() % 20'000);
    const bool open_low = source() % 2 == 0;
    const bool open_high = source() % 2 == 0;
    const json schema = {{"type", "number"},
                         {open_low ? "exclusiveMinimum" : "minimum", low / 100.0},
                         {open_high ? "exclusiveMaximum" : "maximum", high / 100.0}};
    const auto form = compile(grammars(), with_schema(schema));
    ASSERT_TRUE(form) << schema << form.error().message;
    for (int probe = 0; probe < 12; ++probe) {
      const int value = probe < 6 ? (probe % 2 == 0 ? low : high) + probe / 2 - 1 : draw(40'000);
      if (value == 0) continue;  // "-0.00" is no spelling of ours
      const bool inside = value > low - (open_low ? 0 : 1) && value < high + (open_high ? 0 : 1);
      EXPECT_EQ(accepts(*form, answer(spell(value))), inside) << schema << spell(value);
    }
  }
}

TEST(SchemaObjects, HaveProperties) {
  expect_values({
      {R"({"type":"object","patternProperties":{"^x_":{"type":"integer"}},"additionalProperties":false})",
       {"{}", R"({"x_a":1,"x_":2})"},
       {R"({"y":1})", R"({"x_a":"1"})"}},
      {R"({"propertyNames":{"pattern":"^[a-z]+$","maxLength":3},"additionalProperties":{"type":"boolean"},"minProperties":1,"maxProperties":2})",
       {R"({"a":true})", R"({"abc":true, "d":false})"},
       {"{}", R"({"abcd":true})", R"({"A":true})", R"({"a":1})", R"({"a":true,"b":true,"c":true})"}},
      {R"({"required":["id"],"additionalProperties":{"type":"integer"}})",
       {R"({"id":3})"},
       {R"({"id":"3"})", "{}"}},
      {R"({"properties":{"a":false,"b":{"type":"null"}},"required":["b"],"minProperties":1})",
       {R"({"b":null})"},
       {R"({"a":1,"b":null})"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
  });
}

TEST(SchemaArrays, HaveItems) {
  expect_values({
      {R"({"type":"array","items":{"enum":["a","b",3]},"uniqueItems":true})",
       {"[]", R"(["a"])", R"(["b",3,"a"])"},
       {R"(["a","a"])", R"(["c"])"}},
      {R"({"items":{"type":"string","enum":["a","b",3]},"uniqueItems":true,"minItems":2,"maxItems":2})",
       {R"(["b","a"])"},
       {R"(["a"])", R"(["a",3])"}},
      {R"({"type":"array","items":{},"uniqueItems":true,"maxItems":1})", {"[]", "[{}]"}, {"[1,2]"}},
      {R"({"items":false})", {"[]"}, {"[1]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
       {R"([1,"x"])"},
       {R"([1])", R"([1,"x",2])"}},
  });
}

TEST(SchemaCompositions, HoldTogether) {
  expect_values({
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer","minimum":0}},"required":["a"]},
                    {"properties":{"b":{"type":"string"},"a":{"maximum":9}},"required":["b"]}]})",
       {R"({"a":1,"b":"x"})"},
       {R"({"a":10,"b":"x"})", R"({"a":1})", R"({"a":-1,"b":"x"})"}},
      {R"({"$ref":"#/$defs/base","description":"d","properties":{"more":{"type":"null"}},"required":["more"],
           "$defs":{"base":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}})",
       {R"({"more":null,"id":1})"},
       {R"({"id":1})", R"({"more":null})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"additionalProperties":false,
           "anyOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"c":1})"}},
      {R"({"allOf":[{"type":["integer","string"]},{"type":["number","null"]}]})",
       {"3"},
       {"3.5", "null", "\"x\""}},
      {R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"cat"},"lives":{"type":"integer"}},"required":["kind","lives"]},
                    {"$ref":"#/$defs/dog"}],"discriminator":{"propertyName":"kind"},
           "$defs":{"dog":{"type":"object","properties":{"kind":{"enum":["dog","wolf"]}},"required":["kind"]}}})",
       {R"({"kind":"cat","lives":9})", R"({"kind":"wolf"})"},
       {R"({"kind":"cat"})", R"({"kind":"bird"})"}},
      {R"({"oneOf":[{"const":null},{"type":"string"}]})", {"null", "\"x\""}, {"1"}},
      {R"({"oneOf":[{"enum":[1,2]},{"enum":["1"]}]})", {"1", "\"1\""}, {"3"}},
      {R"({"$defs":{"tree":{"allOf":[{"$ref":"#/$defs/named"},{"properties":{"left":{"$ref":"#/$defs/tree"}}}]},
                    "named":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}},"$ref":"#/$defs/tree"})",
       {R"({"name":"a"})", R"({"name":"a","left":{"name":"b","left":{"name":"c"}}})"},
       {R"({"name":"a","left":{}})"}},
      {R"({"properties":{"a/b":{"type":"integer"},"c":{"$ref":"#/properties/a~1b"}},"required":["c"]})",
       {R"({"c":3})"},
       {R"({"c":"x"})"}},
  });
}

TEST(Schemas, AreRefusedByTheKeywordThatCannotBeGuaranteed) {
  for (const auto& [schema, where] : std::vector<std::pair<const char*, const char*>>{
           {R"x({"pattern":"(?=a)"})x", "schema.pattern: the pattern has look-ahead"},
           {R"x({"pattern":"(a)\\1"})x", "schema.pattern: the pattern has a back reference"},
           {R"x({"pattern":"\\bword"})x", "schema.pattern: the pattern has a word border"},
           {R"x({"pattern":"\\p{L}"})x", "schema.pattern"},
           {R"x({"pattern":"(?i)a"})x", "schema.pattern"},
           {R"x({"pattern":"a{2000}"})x", "schema.pattern"},
           {R"x({"pattern":"(((a{900}){900}){900})"})x", "schema.pattern"},
           {R"x({"pattern":"a{3"})x", "schema.pattern"},
           {R"x({"pattern":"*"})x", "schema.pattern"},
           {R"x({"pattern":"[b-a]"})x", "schema.pattern"},
           {R"x({"pattern":"a)"})x", "schema.pattern"},
           {R"x({"pattern":"^a$","minLength":2})x", "schema.pattern: no text has"},
           {R"x({"pattern":"a$b"})x", "schema.pattern: no text has"},
           {R"x({"pattern":5})x", "schema.pattern"},
           {R"x({"pattern":"a","format":"date"})x", "schema.format"},
           {R"x({"format":"iri"})x", "schema.format"},
           {R"x({"multipleOf":0.1})x", "schema.multipleOf"},
           {R"x({"type":"integer","multipleOf":7,"minimum":8,"maximum":13})x", "schema: no number lies"},
           {R"x({"type":"integer","minimum":"1"})x", "schema.minimum"},
           {R"x({"minimum":1e40})x", "schema.minimum"},
           {R"x({"minimum":3,"maximum":2})x", "schema: no number lies"},
           {R"x({"not":{}})x", "schema.not"},
           {R"x({"if":{},"then":{}})x", "schema.if"},
           {R"x({"type":"array","contains":{}})x", "schema.contains"},
           {R"x({"type":"array","uniqueItems":true})x", "schema.uniqueItems"},
           {R"x({"items":{"type":"integer"},"uniqueItems":true})x", "schema.uniqueItems"},
           {R"x({"properties":{"a":{}},"patternProperties":{"b":{}}})x", "schema.patternProperties"},
           {R"x({"properties":{"a":{}},"maxProperties":0})x", "schema.maxProperties"},
           {R"x({"minProperties":2})x", "schema.minProperties"},
           {R"x({"required":["a"],"additionalProperties":false})x", "schema.additionalProperties"},
           {R"x({"dependentRequired":{}})x", "schema.dependentRequired"},
           {R"x({"oneOf":[{"type":"integer"},{"type":"number"}]})x", "schema.oneOf"},
           {R"x({"oneOf":[{"minLength":1},{"type":"object"}]})x", "schema.oneOf"},
           {R"x({"allOf":[{"type":"string"},{"type":"null"}]})x", "type"},
           {R"x({"allOf":[{"pattern":"a"},{"pattern":"b"}]})x", "pattern"},
           {R"x({"allOf":[{"enum":[1]},{"minimum":0}]})x", "schema.allOf[1].minimum"},
           {R"x({"$ref":"#","type":"object"})x", "nested too deeply"},
           {R"x({"$ref":"other.json"})x", "schema.$ref"},
       }) {
    const auto form = compile(grammars(), with_schema(json::parse(schema)));
    ASSERT_FALSE(form) << schema;
    EXPECT_THAT(form.error().message, HasSubstr(where)) << schema;
  }
}

}  // namespace
}  // namespace inkstone::test_support
