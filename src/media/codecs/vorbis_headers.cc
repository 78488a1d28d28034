// SPDX-License-Identifier: Apache-2.0
#include "media/codecs/vorbis_headers.h"

#include <vorbis/codec.h>

#include <algorithm>
#include <cstring>

namespace inkstone::media {
namespace {

constexpr std::size_t kPiece = 1 << 16;
constexpr int kHeaders = 3;

class HeaderReader {
 public:
  HeaderReader() {
    ogg_sync_init(&sync_);
    vorbis_info_init(&info_);
    vorbis_comment_init(&comment_);
  }
  ~HeaderReader() {
    if (streaming_) ogg_stream_clear(&stream_);
    vorbis_comment_clear(&comment_);
    vorbis_info_clear(&info_);
    ogg_sync_clear(&sync_);
  }
  HeaderReader(const HeaderReader&) = delete;
  HeaderReader& operator=(const HeaderReader&) = delete;

  bool read(std::span<const std::byte> bytes) {
    ogg_page page{};
    while (found_ < kHeaders) {
      const int state = ogg_sync_pageout(&sync_, &page);
      if (state < 0) return false;  // bytes that belong to no page
      if (state == 0) {
        if (bytes.empty()) return false;
        feed(bytes.first(std::min(kPiece, bytes.size())));
        bytes = bytes.subspan(std::min(kPiece, bytes.size()));
        continue;
      }
      if (!take(page)) return false;
      if (other_) return true;
    }
    return true;
  }

 private:
  void feed(std::span<const std::byte> bytes) {
    char* const to = ogg_sync_buffer(&sync_, static_cast<long>(bytes.size()));
    std::memcpy(to, bytes.data(), bytes.size());
    ogg_sync_wrote(&sync_, static_cast<long>(bytes.size()));
  }

  bool take(ogg_page& page) {
    if (!streaming_) {
      ogg_stream_init(&stream_, ogg_page_serialno(&page));
      streaming_ = true;
    }
    if (ogg_stream_pagein(&stream_, &page) != 0) return false;
    ogg_packet packet{};
    while (found_ < kHeaders) {
      const int state = ogg_stream_packetout(&stream_, &packet);
      if (state == 0) return true;
      if (state < 0) return false;
      other_ = found_ == 0 && !begins_vorbis(packet);
      if (other_) return true;
      if (vorbis_synthesis_headerin(&info_, &comment_, &packet) != 0) return false;
      ++found_;
    }
    return true;
  }

  static bool begins_vorbis(const ogg_packet& packet) {
    return packet.bytes >= 7 && std::memcmp(packet.packet, "\x01vorbis", 7) == 0;
  }

  ogg_sync_state sync_{};
  ogg_stream_state stream_{};
  vorbis_info info_{};
  vorbis_comment comment_{};
  bool streaming_ = false;
  bool other_ = false;  // another codec
  int found_ = 0;
};

}  // namespace

bool vorbis_headers_are_sound(std::span<const std::byte> ogg) { return HeaderReader().read(ogg); }

}  // namespace inkstone::media
