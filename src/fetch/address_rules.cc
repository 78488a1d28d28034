// SPDX-License-Identifier: Apache-2.0
#include "fetch/address_rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

namespace inkstone::fetch {
namespace {

using Bytes = std::span<const std::uint8_t>;

struct Range {
  std::array<std::uint8_t, 16> prefix;
  int bits;
};

constexpr auto kClosedV4 = std::to_array<Range>({
    {{0}, 8},             // this network
    {{10}, 8},            // private
    {{100, 64}, 10},      // shared among customers of a provider
    {{127}, 8},           // loopback
    {{169, 254}, 16},     // link-local, where clouds keep their metadata
    {{172, 16}, 12},      // private
    {{192, 0, 0}, 24},    // protocol assignments
    {{192, 0, 2}, 24},    // documentation
    {{192, 88, 99}, 24},  // 6to4 relays
    {{192, 168}, 16},     // private
    {{198, 18}, 15},      // benchmarks
    {{198, 51, 100}, 24},
    {{203, 0, 113}, 24},  // documentation
    {{224}, 4},           // multicast
    {{240}, 4},           // reserved, broadcast
});

constexpr Range kGlobalV6 = {{0x20}, 3};  // all that is assigned so far
constexpr auto kClosedV6 = std::to_array<Range>({
    {{0x20, 0x01, 0x00}, 23},        // protocol assignments, Teredo
    {{0x20, 0x01, 0x0d, 0xb8}, 32},  // documentation
    {{0x20, 0x02}, 16},              // 6to4
    {{0x3f, 0xff, 0x00}, 20},        // documentation
});
constexpr Range kMapped = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96};
constexpr Range kNat64 = {{0x00, 0x64, 0xff, 0x9b}, 96};

bool holds(const Range& range, Bytes address) {
  const auto whole = static_cast<std::size_t>(range.bits / 8);
  if (!std::equal(range.prefix.begin(), range.prefix.begin() + static_cast<std::ptrdiff_t>(whole),
                  address.begin()))
    return false;
  const int rest = range.bits % 8;
  return rest == 0 || (range.prefix[whole] ^ address[whole]) >> (8 - rest) == 0;
}

bool in_any(std::span<const Range> ranges, Bytes address) {
  return std::ranges::any_of(ranges, [&](const Range& range) { return holds(range, address); });
}

bool is_public_v4(Bytes address) { return !in_any(kClosedV4, address); }

bool is_public_v6(Bytes address) {
  if (holds(kMapped, address) || holds(kNat64, address)) return is_public_v4(address.subspan(12));
  return holds(kGlobalV6, address) && !in_any(kClosedV6, address);
}

// The generic structure is a view of one of these.
template <class Address>
Address view(const sockaddr& address) {
  Address copy{};
  std::memcpy(&copy, &address, sizeof copy);
  return copy;
}

}  // namespace

bool is_public(const sockaddr& address) {
  std::array<std::uint8_t, 16> bytes{};
  if (address.sa_family == AF_INET) {
    const auto v4 = view<sockaddr_in>(address);
    std::memcpy(bytes.data(), &v4.sin_addr, sizeof v4.sin_addr);
    return is_public_v4(bytes);
  }
  if (address.sa_family != AF_INET6) return false;
  const auto v6 = view<sockaddr_in6>(address);
  std::memcpy(bytes.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
  return is_public_v6(bytes);
}

std::string spell_address(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.sa_family == AF_INET) {
    const auto v4 = view<sockaddr_in>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  } else if (address.sa_family == AF_INET6) {
    const auto v6 = view<sockaddr_in6>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

}  // namespace inkstone::fetch
