// SPDX-License-Identifier: Apache-2.0
// Data URLs: refused with a message, or bytes, never more than the URL is long.
#include "base/base64.h"
#include "base/check.h"
#include "fetch/data_url.h"
#include "tests/support/fuzz_driver.h"

namespace inkstone {

std::vector<std::string> test_support::fuzz_seeds() {
  return {"data:image/png;base64,iVBORw0KGgo=", "data:;base64,Zm9v\nYmFy",
          "data:image/svg+xml,%3Csvg%20%2F%3E", "data:audio/wav;rate=8000;base64,%2B%2F%3D%3D", "data:,"};
}

}  // namespace inkstone

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace inkstone;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto bytes = fetch::read_data_url(text);
  INK_CHECK(bytes ? bytes->size() <= size : !bytes.error().message.empty());
  const auto plain = decode_base64(text);
  if (plain) INK_CHECK(*decode_base64(encode_base64(*plain)) == *plain);
  INK_CHECK(*decode_base64(encode_base64(text)) == text);
  return 0;
}
