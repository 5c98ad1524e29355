#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "emu/client/client.h"
#include "emu/client/fatbin.h"

namespace sculler::emu::client {

class Module {
 public:
  std::vector<PtxImage> images;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
  uint64_t id = 0;
  int status = -1;  // -1: not loaded yet
};

namespace {
std::mutex& registry() {
  static auto* it = new std::mutex;
  return *it;
}

int load_locked(Module& module) {
  if (module.status >= 0) return module.status;
  const wire::HelloReply* w = world();
  if (w == nullptr) return kNoDevice;
  const auto limit = static_cast<uint32_t>(w->major * 10 + w->minor);
  const PtxImage* best = nullptr;
  for (const PtxImage& image : module.images) {
    if (image.arch <= limit && (best == nullptr || image.arch >= best->arch)) best = &image;
  }
  if (best == nullptr) {
    module.status = kNoBinaryForDevice;
    std::fprintf(stderr,
                 "sculler: the module has PTX for newer devices only; compile with -gencode "
                 "arch=compute_%ua,...\n",
                 limit);
    return module.status;
  }
  wire::LoadModule request;
  request.ptx = best->text;
  wire::ModuleReply reply;
  module.status = call(request, reply);
  module.id = reply.module;
  if (module.status != kSuccess && !last_failure().empty()) {
    std::fprintf(stderr, "sculler: module does not load: %s\n", last_failure().c_str());
  }
  return module.status;
}

int check_shape(const Kernel& kernel, const LaunchShape& shape) {
  if (shape.dynamic_shared > static_cast<uint32_t>(std::max(kernel.max_dynamic_shared, 0))) {
    std::fprintf(
        stderr,
        "sculler: launch of %s asks for %u bytes of dynamic shared memory and may use %d: call "
        "cudaFuncSetAttribute(..., cudaFuncAttributeMaxDynamicSharedMemorySize, ...) first\n",
        kernel.name.c_str(), shape.dynamic_shared, kernel.max_dynamic_shared);
    return kInvalidValue;
  }
  const uint64_t cluster = uint64_t{std::max(shape.cluster.x, 1u)} * std::max(shape.cluster.y, 1u) *
                           std::max(shape.cluster.z, 1u);
  if (cluster > 8 && !kernel.non_portable_cluster) {
    std::fprintf(stderr,
                 "sculler: launch of %s asks for clusters of more than 8 blocks: call "
                 "cudaFuncSetAttribute(..., cudaFuncAttributeNonPortableClusterSizeAllowed, 1) "
                 "first\n",
                 kernel.name.c_str());
    return kInvalidClusterSize;
  }
  return kSuccess;
}

int send_launch(Kernel& kernel, const LaunchShape& shape, std::vector<uint8_t> params) {
  if (const int error = check_shape(kernel, shape); error != kSuccess) return error;
  wire::Launch request;
  request.kernel = kernel.info.kernel;
  request.stream = shape.stream;
  request.grid = shape.grid;
  request.block = shape.block;
  request.cluster = shape.cluster;
  request.dynamic_shared = shape.dynamic_shared;
  request.cooperative = shape.cooperative;
  request.params = std::move(params);
  const int error = call(request);
  if (error != kSuccess && !last_failure().empty()) {
    std::fprintf(stderr, "sculler: launch of %s: %s\n", kernel.name.c_str(),
                 last_failure().c_str());
  }
  return error;
}
}  // namespace

Module* add_module(const void* image, std::string& why) {
  std::vector<PtxImage> images = find_ptx(image, why);
  if (images.empty()) return nullptr;
  auto* module = new Module;
  module->images = std::move(images);
  return module;
}

// Kernels stay: host code may still hold their handles. A process that ends takes all with it.
void remove_module(Module* module) {
  const std::lock_guard lock(registry());
  if (module == nullptr || module->status != kSuccess) return;
  wire::UnloadModule request;
  request.module = module->id;
  call(request);
  module->status = kInvalidHandle;
}

int load_module(Module* module) {
  const std::lock_guard lock(registry());
  return module == nullptr ? kInvalidImage : load_locked(*module);
}

int find_kernel(Module* module, std::string_view name, Kernel*& kernel) {
  if (module == nullptr) return kInvalidImage;
  const std::lock_guard lock(registry());
  auto at = module->kernels.find(name);
  if (at == module->kernels.end()) {
    auto fresh = std::make_unique<Kernel>();
    fresh->module = module;
    fresh->name = name;
    at = module->kernels.emplace(std::string(name), std::move(fresh)).first;
  }
  kernel = at->second.get();
  if (kernel->resolved) return kSuccess;
  if (const int error = load_locked(*module); error != kSuccess) return error;
  wire::GetKernel request;
  request.module = module->id;
  request.name = name;
  const int error = call(request, kernel->info);
  if (error == kSuccess && kernel->info.param_offsets.size() == kernel->info.param_bytes.size()) {
    kernel->resolved = true;
    kernel->max_dynamic_shared =
        (48 << 10) - static_cast<int32_t>(std::min<uint32_t>(kernel->info.static_shared, 48 << 10));
    return kSuccess;
  }
  if (!last_failure().empty())
    std::fprintf(stderr, "sculler: kernel %s: %s\n", kernel->name.c_str(), last_failure().c_str());
  return error == kSuccess ? static_cast<int>(kUnknown) : error;
}

int find_global(Module* module, std::string_view name, uint64_t& address, uint64_t& bytes) {
  if (const int error = load_module(module); error != kSuccess) return error;
  wire::GetGlobal request;
  request.module = module->id;
  request.name = name;
  wire::GlobalReply reply;
  const int error = call(request, reply);
  address = reply.address;
  bytes = reply.bytes;
  return error;
}

int launch(Kernel& kernel, const LaunchShape& shape, void* const* args) {
  std::vector<uint8_t> params(kernel.info.all_param_bytes);
  for (std::size_t i = 0; i < kernel.info.param_offsets.size(); ++i) {
    const uint64_t at = kernel.info.param_offsets[i];
    const uint64_t bytes = kernel.info.param_bytes[i];
    if (args == nullptr || args[i] == nullptr || at + bytes > params.size()) return kInvalidValue;
    std::memcpy(params.data() + at, args[i], bytes);
  }
  return send_launch(kernel, shape, std::move(params));
}

int launch_packed(Kernel& kernel, const LaunchShape& shape, const void* params, uint64_t bytes) {
  if (bytes > kernel.info.all_param_bytes || (bytes != 0 && params == nullptr))
    return kInvalidValue;
  std::vector<uint8_t> copy(kernel.info.all_param_bytes);
  if (bytes != 0) std::memcpy(copy.data(), params, bytes);
  return send_launch(kernel, shape, std::move(copy));
}

}  // namespace sculler::emu::client
