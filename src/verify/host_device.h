// A Device whose buffers this process can read and write through pointers: memfds on cpu, the
// emulated memory on emu.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "verify/reference.h"
#include "verify/session.h"

namespace sculler::verify {

// Element by element, NaN-safe. Counts poison from the end first, so that a writer that still runs
// is seen.
Comparison compare_host(const BufferSpec& buffer, const void* data, const ExpectedBuffer& expected,
                        const Tolerance& tolerance);
// Poison and changed elements.
void poison_host(const BufferSpec& buffer, void* data);
uint64_t changed_host(const BufferSpec& buffer, uint64_t key, const void* data);
void fill_host(const BufferSpec& buffer, uint64_t key, void* data);

class HostDevice : public Device {
 public:
  // Both outlive the object.
  HostDevice(const JobSpec& job, Reference& reference);
  Status adopt(int rank, int set, int buffer, uint64_t address, uint64_t bytes,
               rank::UniqueFd fd) override;
  Status fill(int rank, int set, int buffer, int content) override;
  Status poison_outputs(int rank, int set) override;
  Result<Comparison> compare(int rank, int set, int buffer, int content) override;
  Result<Comparison> repeat(int rank, int set, int other, int buffer, int content) override;
  Result<uint64_t> changed_inputs(int rank, int set, int content) override;
  Status prepare(int content) override;
  uint64_t now_ns() override;

 protected:
  // The buffer in this process; stays valid until the device is destroyed.
  virtual Result<void*> map(int rank, int set, int buffer, uint64_t address, uint64_t bytes,
                            rank::UniqueFd fd) = 0;
  // Told after [data, data + bytes) was written by the checker (emu: marks it initialised).
  virtual void written(int rank, void* data, uint64_t bytes, bool poison) {
    (void)rank, (void)data, (void)bytes, (void)poison;
  }
  [[nodiscard]] void* at(int rank, int set, int buffer) const;
  const JobSpec& job_;
  Reference& reference_;

 private:
  [[nodiscard]] std::size_t index(int rank, int set, int buffer) const;
  // The bytes of an input, kept where they are small: emulated jobs fill the same contents again
  // and again. Null where they are not kept.
  const std::vector<std::byte>* kept_input(int rank, int buffer, int content);
  std::vector<void*> mapped_;
  std::map<uint64_t, std::vector<std::byte>> inputs_;  // by stream key
  uint64_t inputs_bytes_ = 0;
};

// Buffers are sealed memfds that ranks send.
class MemfdDevice final : public HostDevice {
 public:
  using HostDevice::HostDevice;
  ~MemfdDevice() override;

 protected:
  Result<void*> map(int rank, int set, int buffer, uint64_t address, uint64_t bytes,
                    rank::UniqueFd fd) override;

 private:
  std::vector<std::pair<void*, uint64_t>> maps_;
  std::set<std::pair<uint64_t, uint64_t>> files_;  // (device, inode): one file is one buffer
};

}  // namespace sculler::verify
