// SPDX-License-Identifier: Apache-2.0
#include "server/grammar/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "server/wire/chat_body.h"

namespace inkstone::server {
namespace {

using chat::JsonMember;
using chat::JsonValue;
using Kind = JsonValue::Kind;

const std::set<std::string_view> kAnnotations = {
    "title",    "description", "default",       "examples",  "$schema",         "$id",
    "$comment", "deprecated",  "readOnly",      "writeOnly", "definitions",     "$defs",
    "$anchor",  "strict",      "discriminator", "example",   "contentEncoding", "contentMediaType"};
const std::set<std::string_view> kLeast = {"minimum", "exclusiveMinimum", "minLength", "minItems",
                                           "minProperties"};
const std::set<std::string_view> kMost = {"maximum", "exclusiveMaximum", "maxLength", "maxItems",
                                          "maxProperties"};

JsonValue array_of(std::vector<JsonValue> items) {
  JsonValue array;
  array.kind = Kind::kArray;
  array.items = std::move(items);
  return array;
}

bool is_number(const JsonValue& value) { return value.kind == Kind::kInteger || value.kind == Kind::kFloat; }
bool is_bool(const JsonValue* value, bool wanted) {
  return value != nullptr && value->kind == Kind::kBool && value->boolean == wanted;
}

std::vector<std::string> words_of(const JsonValue& value) {
  if (value.kind == Kind::kString) return {value.text};
  std::vector<std::string> words;
  for (const JsonValue& item : value.items) words.push_back(item.text);
  return words;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// What both name; integers are numbers.
JsonValue common_types(const JsonValue& a, const JsonValue& b) {
  const std::vector<std::string> first = words_of(a);
  const std::vector<std::string> second = words_of(b);
  std::vector<JsonValue> common;
  for (const std::string& type : first) {
    if (contains(second, type)) common.push_back(json_string(type));
    if (type == "integer" && contains(second, "number") && !contains(second, type))
      common.push_back(json_string(type));
    if (type == "number" && contains(second, "integer") && !contains(second, type) &&
        !contains(first, "integer"))
      common.push_back(json_string("integer"));
  }
  if (common.size() == 1) return common.front();
  return array_of(std::move(common));
}

JsonValue all_words(const JsonValue& a, const JsonValue& b) {
  JsonValue all = a;
  const std::vector<std::string> known = words_of(a);
  for (const JsonValue& item : b.items)
    if (!contains(known, item.text)) all.items.push_back(item);
  return all;
}

class Merge {
 public:
  Merge(const JsonValue& a, const JsonValue& b, const std::string& path) : a_(a), b_(b), path_(path) {}

  Result<JsonValue> run() {
    JsonValue merged = a_;
    for (const JsonMember& member : b_.members) {
      const JsonValue* known = merged.find(member.key);
      if (known == nullptr) {
        merged.members.push_back(member);
      } else if (!is_annotation(member.key)) {
        set_member(merged, member.key, INK_TRY(merge_keyword(member.key, *known, member.value)));
      }
    }
    const bool a_lists = a_.find("prefixItems") != nullptr;
    const bool b_lists = b_.find("prefixItems") != nullptr;
    if ((a_lists && !b_lists && b_.find("items") != nullptr) ||
        (b_lists && !a_lists && a_.find("items") != nullptr))
      return refuse("prefixItems", "cannot be combined with items of another schema");
    INK_TRY(drop_forbidden(merged, a_, b_));
    INK_TRY(drop_forbidden(merged, b_, a_));
    return merged;
  }

 private:
  Result<JsonValue> merge_keyword(const std::string& key, const JsonValue& a, const JsonValue& b) {
    if (kLeast.contains(key) && is_number(a) && is_number(b)) return a.number >= b.number ? a : b;
    if (kMost.contains(key) && is_number(a) && is_number(b)) return a.number <= b.number ? a : b;
    if (chat::ordered_json(a) == chat::ordered_json(b)) return a;
    if (key == "type") {
      JsonValue types = common_types(a, b);
      if (types.kind == Kind::kArray && types.items.empty()) return refuse(key, "leaves no type");
      return types;
    }
    if (key == "required" && a.kind == Kind::kArray && b.kind == Kind::kArray) return all_words(a, b);
    if (key == "properties" && a.kind == Kind::kObject && b.kind == Kind::kObject)
      return merge_properties(a, b);
    if (key == "items") return both_of(a, b);
    if (key == "additionalProperties" || key == "uniqueItems") {
      const bool strict = key == "uniqueItems";
      if (is_bool(&a, !strict) || is_bool(&b, strict)) return b;
      if (is_bool(&b, !strict) || is_bool(&a, strict)) return a;
      return both_of(a, b);
    }
    return refuse(key, "differs in schemas that must all hold");
  }

  static JsonValue merge_properties(const JsonValue& a, const JsonValue& b) {
    JsonValue merged = a;
    for (const JsonMember& member : b.members) {
      const JsonValue* known = merged.find(member.key);
      set_member(merged, member.key, known == nullptr ? member.value : both_of(*known, member.value));
    }
    return merged;
  }

  // What one side lists is an additional property to the other, which may forbid or restrict it.
  Status drop_forbidden(JsonValue& merged, const JsonValue& side, const JsonValue& other) {
    const JsonValue* rule = side.find("additionalProperties");
    const JsonValue* others = other.find("properties");
    if (rule == nullptr || is_bool(rule, true) || others == nullptr) return {};
    if (side.find("patternProperties") != nullptr)
      return refuse("patternProperties", "cannot be combined with further properties");
    const JsonValue* own = side.find("properties");
    JsonValue properties = *merged.find("properties");
    for (const JsonMember& member : others->members) {
      if (own != nullptr && own->find(member.key) != nullptr) continue;
      if (!is_bool(rule, false)) {
        set_member(properties, member.key, both_of(*properties.find(member.key), *rule));
        continue;
      }
      const JsonValue* required = merged.find("required");
      if (required != nullptr && contains(words_of(*required), member.key))
        return refuse("additionalProperties", fmt::format("forbids '{}', which is required", member.key));
      std::erase_if(properties.members, [&](const JsonMember& each) { return each.key == member.key; });
    }
    set_member(merged, "properties", std::move(properties));
    return {};
  }

  [[nodiscard]] tl::unexpected<Error> refuse(std::string_view key, std::string_view what) const {
    return fail(ErrorKind::kUnsupported, fmt::format("{}.{}: {}", path_, key, what));
  }

  const JsonValue& a_;
  const JsonValue& b_;
  const std::string& path_;
};

}  // namespace

bool is_annotation(std::string_view keyword) { return kAnnotations.contains(keyword); }

Result<JsonValue> merge_schemas(const JsonValue& a, const JsonValue& b, const std::string& path) {
  return Merge(a, b, path).run();
}

JsonValue both_of(const JsonValue& a, const JsonValue& b) {
  return json_object({{"allOf", array_of({a, b})}});
}

}  // namespace inkstone::server
