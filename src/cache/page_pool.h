// SPDX-License-Identifier: Apache-2.0
// cache/page_pool.h - pages by reference count and by content: who holds a page, and which page holds a
// prefix.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "cache/content_key.h"
#include "cache/ids.h"
#include "cache/index_list.h"
#include "cache/key_map.h"

namespace inkstone::cache {

// A page is free, held (references > 0), or kept: published and held by nobody, evicted least recently used.
class PagePool {
 public:
  explicit PagePool(std::int64_t num_pages);

  [[nodiscard]] std::int64_t num_pages() const { return static_cast<std::int64_t>(pages_.size()); }
  // Pages that `take` can give: free and kept ones.
  [[nodiscard]] std::int64_t available() const { return free_.size() + kept_.size(); }
  [[nodiscard]] std::int64_t kept() const { return kept_.size(); }
  [[nodiscard]] std::int32_t references(PageId page) const { return at(page).references; }

  // A page with one reference and no content; nothing when all are held.
  std::optional<PageId> take();
  void add_reference(PageId page);
  void release(PageId page);

  // The page's rows are final and hold the prefix `key`. The first page of a key serves it; another one stays
  // private to its holders.
  void publish(PageId page, const ContentKey& key);
  [[nodiscard]] std::optional<PageId> find(const ContentKey& key) const;
  // Forgets all kept pages: they become free.
  void drop_kept();

  // Compares the counts with `expected` references and every list with every other.
  [[nodiscard]] Status check(const std::vector<std::int32_t>& expected) const;

 private:
  struct Page {
    std::int32_t references = 0;
    bool published = false;
    ContentKey key;
  };
  [[nodiscard]] Page& at(PageId page) { return pages_[static_cast<std::size_t>(page.value)]; }
  [[nodiscard]] const Page& at(PageId page) const { return pages_[static_cast<std::size_t>(page.value)]; }
  void unpublish(PageId page);
  [[nodiscard]] Status check_page(PageId page, std::int32_t expected) const;

  std::vector<Page> pages_;
  IndexList free_;
  IndexList kept_;
  KeyMap by_key_;
};

}  // namespace inkstone::cache
