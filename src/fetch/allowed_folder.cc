// SPDX-License-Identifier: Apache-2.0
#include "fetch/allowed_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "fetch/data_url.h"

namespace inkstone::fetch {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

tl::unexpected<Error> no_such_file() {
  return invalid("names no file of the folder that is open to clients");
}

// One name after the other, each inside the folder before.
Result<Descriptor> open_below(int folder, std::string_view path) {
  Descriptor at(::dup(folder));
  while (true) {
    while (path.starts_with('/')) path.remove_prefix(1);
    const std::string name(path.substr(0, path.find('/')));
    path.remove_prefix(name.size());
    const bool last = path.find_first_not_of('/') == std::string_view::npos;
    if (name.empty() || name == "." || name == "..") return no_such_file();
    // Without O_NONBLOCK a pipe would keep the thread for ever.
    const int flags = O_CLOEXEC | O_NOFOLLOW | (last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY);
    Descriptor next(::openat(at.get(), name.c_str(), flags));
    if (!next.valid()) return no_such_file();
    at = std::move(next);
    if (last) return at;
  }
}

Result<std::string> read_plain_file(int file, std::int64_t max_bytes) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) return no_such_file();
  if (facts.st_size > max_bytes)
    return fail(ErrorKind::kTooLarge,
                fmt::format("names a file of {} bytes; at most {} are allowed", facts.st_size, max_bytes));
  std::string bytes(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file, bytes.data() + done, bytes.size() - done);
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  if (done < bytes.size()) return fail(ErrorKind::kIo, "names a file that cannot be read");
  return bytes;
}

}  // namespace

Result<AllowedFolder> AllowedFolder::open(const std::string& path) {
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  const int folder = error ? -1 : ::open(real.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return invalid(fmt::format("{} is no folder that can be read", path));
  return AllowedFolder(folder, real);
}

AllowedFolder::AllowedFolder(AllowedFolder&& other) noexcept
    : folder_(std::exchange(other.folder_, -1)), path_(std::move(other.path_)) {}

AllowedFolder::~AllowedFolder() {
  if (folder_ >= 0) ::close(folder_);
}

Result<std::string> AllowedFolder::path_below(std::string_view reference) const {
  constexpr std::string_view kScheme = "file:";
  std::string path(reference);
  if (reference.starts_with(kScheme)) {
    std::string_view rest = reference.substr(kScheme.size());
    for (const std::string_view host : {"//localhost/", "///"})
      if (rest.starts_with(host)) rest.remove_prefix(host.size() - 1);
    if (!rest.starts_with('/') || rest.starts_with("//")) return invalid("is no file URL of this machine");
    path = decode_percent(rest);
  }
  if (path.find('\0') != std::string::npos) return no_such_file();
  if (!path.starts_with('/')) return path;
  const std::string prefix = path_ == "/" ? path_ : path_ + "/";
  if (!path.starts_with(prefix)) return no_such_file();
  return path.substr(prefix.size());
}

Result<std::string> AllowedFolder::read(std::string_view reference, std::int64_t max_bytes) const {
  const std::string path = INK_TRY(path_below(reference));
  const Descriptor file = INK_TRY(open_below(folder_, path));
  return read_plain_file(file.get(), max_bytes);
}

}  // namespace inkstone::fetch
