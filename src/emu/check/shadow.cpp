#include "emu/check/shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace sculler::emu::check {

GlobalShadow::~GlobalShadow() {
  for (Page** table : tables_) {
    if (table != nullptr) munmap(table, kEntries * sizeof(Page*));
  }
}

Page** GlobalShadow::table(uint32_t region) {
  if (tables_[region] == nullptr) {
    // 128 MiB of address space; only what is touched takes memory.
    void* memory = mmap(nullptr, kEntries * sizeof(Page*), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    tables_[region] = static_cast<Page**>(memory);
  }
  return tables_[region];
}

Page* GlobalShadow::take(bool written) {
  if (free_.empty()) {
    constexpr size_t kBatch = 64;
    storage_.push_back(std::make_unique<Page[]>(kBatch));
    for (size_t i = kBatch; i-- > 0;) free_.push_back(&storage_.back()[i]);
  }
  Page* page = free_.back();
  free_.pop_back();
  page->granules.fill(Granule{{}, written ? ~uint64_t{0} : 0});
  pages_.push_back(page);
  return page;
}

// What nobody announced as allocated counts as written.
Granule* GlobalShadow::materialise(uint32_t region, uint64_t index) {
  Page*& entry = table(region)[index];
  entry = take(entry == nullptr);
  return entry->granules.data();
}

void GlobalShadow::reset(Address begin, uint64_t bytes, bool written, Quads& quads) {
  const uint32_t region = region_of(begin);
  if (region == kNone || bytes == 0) return;
  Page** const entries = table(region);
  const uint64_t first = begin & (kRankStride - 1);
  const uint64_t last = std::min(first + bytes, kRankStride);
  bool dropped = false;
  for (uint64_t at = first; at < last;) {
    const uint64_t index = at / kPage, page_end = std::min((index + 1) * kPage, last);
    Page*& entry = entries[index];
    const bool real = entry != nullptr && entry != fresh();
    const bool whole = at % kPage == 0 && page_end - at == kPage;
    if (whole) {
      if (real) {
        for (Granule& granule : entry->granules) quads.clear(granule.cell);
        free_.push_back(entry);
        dropped = true;
      }
      entry = written ? nullptr : fresh();
    } else {
      if (!real) entry = take(entry == nullptr);
      for (uint64_t byte = at; byte < page_end;) {
        Granule& granule = entry->granules[byte % kPage / kGranule];
        const uint64_t granule_end = std::min(byte / kGranule * kGranule + kGranule, page_end);
        if (byte % kGranule == 0) quads.clear(granule.cell);
        for (; byte < granule_end; ++byte) {
          const uint64_t bit = uint64_t{1} << (byte % kGranule);
          granule.written = written ? granule.written | bit : granule.written & ~bit;
        }
      }
    }
    at = page_end;
  }
  if (!dropped) return;
  std::vector<Page*> unused(free_);
  std::sort(unused.begin(), unused.end());
  std::erase_if(pages_,
                [&](Page* page) { return std::binary_search(unused.begin(), unused.end(), page); });
}

}  // namespace sculler::emu::check
