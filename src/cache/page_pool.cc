// SPDX-License-Identifier: Apache-2.0
#include "cache/page_pool.h"

#include <fmt/format.h>

#include "base/check.h"

namespace inkstone::cache {

PagePool::PagePool(std::int64_t num_pages)
    : pages_(static_cast<std::size_t>(num_pages)), free_(num_pages), kept_(num_pages), by_key_(num_pages) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(num_pages); ++i) free_.push_back(i);
}

std::optional<PageId> PagePool::take() {
  if (free_.empty()) {
    if (kept_.empty()) return std::nullopt;
    const PageId oldest{kept_.pop_front()};
    unpublish(oldest);
    free_.push_front(oldest.value);
  }
  const PageId page{free_.pop_front()};
  at(page).references = 1;
  return page;
}

void PagePool::add_reference(PageId page) {
  if (at(page).references++ == 0 && kept_.contains(page.value)) kept_.erase(page.value);
}

void PagePool::release(PageId page) {
  INK_CHECK(at(page).references > 0, "only who holds a page may release it");
  if (--at(page).references > 0) return;
  if (at(page).published) {
    kept_.push_back(page.value);
  } else {
    // The page used last is the next to be used: it is likely to be in a near memory still.
    free_.push_front(page.value);
  }
}

void PagePool::publish(PageId page, const ContentKey& key) {
  INK_CHECK(at(page).references > 0 && !at(page).published, "a held page is published once");
  if (by_key_.find(key)) return;
  by_key_.insert(key, page.value);
  at(page).published = true;
  at(page).key = key;
}

std::optional<PageId> PagePool::find(const ContentKey& key) const {
  const auto found = by_key_.find(key);
  if (!found) return std::nullopt;
  return PageId{*found};
}

void PagePool::unpublish(PageId page) {
  by_key_.erase(at(page).key);
  at(page).published = false;
}

void PagePool::drop_kept() {
  while (!kept_.empty()) {
    const PageId page{kept_.pop_front()};
    unpublish(page);
    free_.push_back(page.value);
  }
}

Status PagePool::check_page(PageId page, std::int32_t expected) const {
  const Page& entry = at(page);
  const auto fault = [&](std::string_view what) {
    return fail(ErrorKind::kFailed, fmt::format("page {}: {} ({} references, {} expected)", page.value, what,
                                                entry.references, expected));
  };
  if (entry.references != expected) return fault("wrong reference count");
  if (free_.contains(page.value) != (entry.references == 0 && !entry.published))
    return fault("wrong free list");
  if (kept_.contains(page.value) != (entry.references == 0 && entry.published))
    return fault("wrong kept list");
  if (entry.published && find(entry.key) != page) return fault("its key leads elsewhere");
  return {};
}

Status PagePool::check(const std::vector<std::int32_t>& expected) const {
  std::int64_t published = 0;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(pages_.size()); ++i) {
    INK_TRY(check_page(PageId{i}, expected[static_cast<std::size_t>(i)]));
    published += pages_[static_cast<std::size_t>(i)].published ? 1 : 0;
  }
  if (published != by_key_.size()) return fail(ErrorKind::kFailed, "the page index holds keys of no page");
  return {};
}

}  // namespace inkstone::cache
