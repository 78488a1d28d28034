// SPDX-License-Identifier: Apache-2.0
// media/codecs/vorbis_headers.h - a look at the headers of a Vorbis stream before libsndfile sees it.
#pragma once

#include <cstddef>
#include <span>

namespace inkstone::media {

// False for an OGG file that begins a Vorbis stream whose three headers libvorbis does not accept. libsndfile
// 1.2.0 loses 5.8 KB for each of these, and a client may send as many as it likes. Everything else is left to
// libsndfile. Thread-safe.
bool vorbis_headers_are_sound(std::span<const std::byte> ogg);

}  // namespace inkstone::media
