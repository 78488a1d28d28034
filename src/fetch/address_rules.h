// SPDX-License-Identifier: Apache-2.0
// fetch/address_rules.h - which addresses a server may be asked to connect to.
#pragma once

#include <string>

struct sockaddr;

namespace inkstone::fetch {

// An IPv4 or IPv6 address of the public internet: not loopback, private, link-local, shared, multicast,
// reserved, of documentation or benchmarks, nor any of these wrapped into an IPv6 address (mapped, NAT64,
// 6to4, Teredo). After the registries for special purposes (RFC 6890 and its updates).
bool is_public(const sockaddr& address);

// "127.0.0.1", "::1"; empty for other families.
std::string spell_address(const sockaddr& address);

}  // namespace inkstone::fetch
