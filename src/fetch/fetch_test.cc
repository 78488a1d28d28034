// SPDX-License-Identifier: Apache-2.0
// What a client may not reach: addresses, files outside the folder. And what its data URLs hold.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "fetch/address_rules.h"
#include "fetch/allowed_folder.h"
#include "fetch/data_url.h"
#include "fetch/fetcher.h"

namespace inkstone::fetch {
namespace {

bool is_public(const std::string& text) {
  sockaddr_storage address{};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    address.ss_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr), 1) << text;
    address.ss_family = AF_INET6;
  }
  return fetch::is_public(reinterpret_cast<const sockaddr&>(address));
}

TEST(Addresses, OfThePublicInternetAreOpen) {
  for (const char* address : {"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255",
                              "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
                              "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001::1",
                              "2001:4860:4860::8888", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"})
    EXPECT_TRUE(is_public(address)) << address;
}

TEST(Addresses, OfEverythingElseAreClosed) {
  for (const char* address : {"0.0.0.0",
                              "0.1.2.3",
                              "10.0.0.1",
                              "10.255.255.255",
                              "100.64.0.1",
                              "100.127.255.255",
                              "127.0.0.1",
                              "127.255.255.254",
                              "169.254.169.254",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.0.0.1",
                              "192.0.2.1",
                              "192.88.99.1",
                              "192.168.1.1",
                              "198.18.0.1",
                              "198.19.255.255",
                              "198.51.100.1",
                              "203.0.113.1",
                              "224.0.0.1",
                              "239.255.255.255",
                              "240.0.0.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "::127.0.0.1",
                              "::ffff:127.0.0.1",
                              "::ffff:10.0.0.1",
                              "64:ff9b::7f00:1",
                              "64:ff9b:1::1",
                              "100::1",
                              "2001::1",
                              "2001:db8::1",
                              "2002:7f00:1::",
                              "3fff::1",
                              "fc00::1",
                              "fd12:3456::1",
                              "fe80::1",
                              "fec0::1",
                              "ff02::1"})
    EXPECT_FALSE(is_public(address)) << address;
}

TEST(DataUrls, GiveTheirBytes) {
  EXPECT_EQ(read_data_url("data:image/png;base64,Zm9vYg==").value_or("?"), "foob");
  EXPECT_EQ(read_data_url("DATA:image/png;charset=x;BASE64,Zm9v").value_or("?"), "foo");
  EXPECT_EQ(read_data_url("data:;base64,").value_or("?"), "");
  EXPECT_EQ(read_data_url("data:;base64,%2B%2F%3D%3D").value_or("?"), "\xfb");
  EXPECT_EQ(read_data_url("data:,a%20b%").value_or("?"), "a b%");
  EXPECT_FALSE(read_data_url("data:image/png;base64"));
  EXPECT_FALSE(read_data_url("data:image/png;base64,Zm9v!"));
}

// A folder with a file, and a secret beside it.
class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "inkstone-fetch-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = std::filesystem::canonical(name);
    std::filesystem::create_directories(root / "open/deep");
    write("secret", "secret");
    write("open/a.png", "picture");
    write("open/deep/b c.png", "deeper");
    std::filesystem::create_symlink(root / "secret", root / "open/link");
    std::filesystem::create_symlink(root, root / "open/up");
    std::filesystem::create_symlink(root / "open/a.png", root / "open/inner");
    ASSERT_EQ(::mkfifo((root / "open/pipe").c_str(), 0600), 0);
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  void write(const std::string& path, std::string_view text) const { std::ofstream(root / path) << text; }
  [[nodiscard]] std::string read(const std::string& reference) const {
    const auto folder = AllowedFolder::open(root / "open");
    EXPECT_TRUE(folder.has_value());
    const Result<std::string> bytes = folder->read(reference, 100);
    return bytes ? *bytes : "error: " + bytes.error().message;
  }

  std::filesystem::path root;
};

TEST_F(Folder, OpensWhatLiesBelowIt) {
  EXPECT_EQ(read("a.png"), "picture");
  EXPECT_EQ(read("deep/b c.png"), "deeper");
  EXPECT_EQ(read((root / "open/a.png").string()), "picture");
  EXPECT_EQ(read("file://" + (root / "open/deep").string() + "/b%20c.png"), "deeper");
  EXPECT_EQ(read("file://localhost" + (root / "open/a.png").string()), "picture");
}

TEST_F(Folder, LetsNothingElseBeRead) {
  const std::string outside = (root / "secret").string();
  for (const std::string& reference : {std::string("../secret"),
                                       std::string("deep/../../secret"),
                                       std::string("link"),
                                       std::string("inner"),
                                       std::string("up/secret"),
                                       std::string("up/open/a.png"),
                                       std::string("pipe"),
                                       std::string("deep"),
                                       std::string(""),
                                       std::string("."),
                                       std::string("deep/../a.png"),
                                       outside,
                                       "file://" + outside,
                                       "file://" + (root / "open/%2e%2e/secret").string(),
                                       "file://other" + outside,
                                       "file:" + outside,
                                       (root / "open/../secret").string(),
                                       std::string("file:///etc/passwd"),
                                       std::string("/etc/passwd"),
                                       "file:" + std::string(1, '/') + "/" + outside,
                                       (root / "openx").string()}) {
    EXPECT_EQ(read(reference).substr(0, 6), "error:") << reference;
  }
  EXPECT_EQ(read("link"), read("missing")) << "nothing is told about what lies outside";
}

TEST_F(Folder, RefusesLargeFilesUnread) {
  write("open/large", std::string(101, 'x'));
  EXPECT_NE(read("large").find("101 bytes; at most 100"), std::string::npos);
}

TEST(Fetchers, OpenNothingUnlessTheOperatorSaysSo) {
  const auto fetcher = Fetcher::create({});
  ASSERT_TRUE(fetcher);
  for (const char* url : {"http://example.com/a.png", "https://example.com/a.png", "file:///etc/passwd",
                          "/etc/passwd", "a.png", "ftp://example.com/a", "gopher://127.0.0.1/", ""})
    EXPECT_FALSE(fetcher->get(url)) << url;
  EXPECT_EQ(fetcher->get("data:,x").value_or("?"), "x");
}

}  // namespace
}  // namespace inkstone::fetch
