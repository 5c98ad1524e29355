#include "emu/predict/predict.h"

namespace sculler::emu {

namespace {

// Reads positive numbers; keeps the first error.
class Reader {
 public:
  explicit Reader(const task::Profile& profile) : profile_(profile) {}
  double operator()(const char* key, double scale, bool zero_allowed = false) {
    const auto value = profile_.number(key);
    if (value && (*value > 0 || (zero_allowed && *value == 0)) && *value < 1e18)
      return *value * scale;
    if (status_) {
      status_ = fail(Error{ErrorCode::kBadInput,
                           value ? "a positive number is expected"
                                 : "the key is missing, so nothing can be predicted",
                           profile_.path, key, "see profiles/h200x2.toml for a complete profile"});
    }
    return 1;
  }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const task::Profile& profile_;
  Status status_{};
};

}  // namespace

Result<Hardware> hardware_of(task::Profile profile) {
  Hardware out;
  out.profile = std::move(profile);
  Reader get(out.profile);
  const auto count = [&](const char* key) { return static_cast<uint32_t>(get(key, 1)); };
  DeviceLimits& limits = out.device.limits;
  limits.sms = count("limits.sms");
  limits.shared_per_sm = count("limits.shared_per_sm");
  limits.shared_per_block = count("limits.shared_per_block");
  limits.shared_reserved = static_cast<uint32_t>(get("limits.shared_reserved", 1, true));
  limits.registers_per_sm = count("limits.registers_per_sm");
  limits.warps_per_sm = count("limits.warps_per_sm");
  limits.blocks_per_sm = count("limits.blocks_per_sm");
  limits.threads_per_block = count("limits.threads_per_block");
  out.device.l2_bytes = count("limits.l2_bytes");
  out.device.total_memory = static_cast<uint64_t>(get("limits.memory_bytes", 1));
  out.device.clock_khz = static_cast<uint32_t>(get("nominal.clock_mhz", 1e3));
  out.device.copy_engines = count("measured.copy_engines");
  out.device.multicast = out.profile.multicast;
  // "sm_90a": 9.0
  const std::string& arch = out.profile.arch;
  if (arch.starts_with("sm_")) {
    int number = 0;
    for (size_t i = 3; i < arch.size() && arch[i] >= '0' && arch[i] <= '9' && number < 1000; ++i) {
      number = number * 10 + (arch[i] - '0');
    }
    if (number >= 10) {
      out.device.major = number / 10;
      out.device.minor = number % 10;
    }
  }

  Rates& r = out.rates;
  const double sms = limits.sms;
  r.sms = limits.sms;
  r.copy_engines = out.device.copy_engines;
  r.clock = get("measured.clock_mhz", 1e6);
  r.tensor = get("nominal.bf16_tflops", 1e12) * get("measured.mma_sync_fraction", 1) *
             get("measured.mma_efficiency", 1);
  r.fp32 = get("nominal.f32_tflops", 1e12) * get("measured.fp32_efficiency", 1);
  r.issue = sms * 4 * r.clock * get("measured.issue_efficiency", 1);
  r.shared =
      sms * r.clock * get("measured.shared_bytes_clock", 1) * get("measured.shared_efficiency", 1);
  r.l2 = get("measured.l2_gbs", 1e9);
  r.hbm = get("measured.hbm_gbs", 1e9);
  r.gemm = get("measured.gemm_tflops", 1e12);
  // Profiles from before kernels in float32 were predicted do not have it.
  r.gemm_float32 = out.profile.number("measured.gemm_f32_tflops")
                       ? get("measured.gemm_f32_tflops", 1e12)
                       : r.fp32;
  r.gemm_start = get("measured.gemm_start_us", 1e-6);
  r.link = get("measured.link_gbs", 1e9);
  r.store = get("measured.store_gbs", 1e9);
  r.store_sms = get("measured.store_sms", 1);
  r.load = get("measured.load_gbs", 1e9);
  r.copy = get("measured.copy_gbs", 1e9);
  r.local_copy = get("measured.local_copy_gbs", 1e9);
  r.host_copy = get("measured.host_copy_gbs", 1e9);
  r.copy_interference = get("measured.copy_interference", 1, true);
  r.nccl = get("measured.nccl_gbs", 1e9);
  r.nccl_latency = get("measured.nccl_latency_us", 1e-6);
  r.nccl_symmetric = get("measured.nccl_symmetric_gbs", 1e9);
  r.nccl_symmetric_latency = get("measured.nccl_symmetric_latency_us", 1e-6);
  r.nccl_sms = get("measured.nccl_sms", 1);
  r.nccl_beside_gemm = get("measured.nccl_beside_gemm", 1);
  r.epilogue_overlap = get("measured.epilogue_overlap", 1, true);
  // Profiles from before wgmma was emulated do not have it.
  r.bulk_overlap = out.profile.number("measured.bulk_overlap")
                       ? get("measured.bulk_overlap", 1, true)
                       : r.epilogue_overlap;
  const auto latency = [&](const char* key) { return get(key, 1e-6, true); };
  r.host.kernel = latency("latency.kernel_us");
  r.host.gemm = latency("latency.gemm_us");
  r.host.collective = latency("latency.collective_us");
  r.host.copy = latency("latency.copy_us");
  r.host.event = latency("latency.event_us");
  r.host.wait = latency("latency.wait_us");
  r.host.graph = latency("latency.graph_us");
  r.host.memset = latency("latency.memset_us");
  r.host.submit = latency("latency.submit_us");
  r.host.gap = latency("latency.gap_us");
  r.host.dependency = latency("latency.dependency_us");
  r.host.kernel_start = latency("latency.kernel_start_us");
  r.host.copy_start = latency("latency.copy_start_us");
  r.host.barrier = latency("latency.barrier_us");
  r.host.synchronize = latency("latency.synchronize_us");

  DeviceRates& d = out.device_rates;
  d.launch_s = r.host.kernel;
  d.hbm = r.hbm;
  d.link = r.copy;
  d.host_link = r.host_copy;
  d.gemm_flops = r.gemm;
  d.instruction = r.issue;
  d.collective_latency_s = r.nccl_latency;
  d.collective_bytes = r.nccl;
  if (!get.status()) return fail(get.status().error());
  return out;
}

Result<Hardware> load_hardware(Files& files, const std::string& path) {
  auto profile = task::load_profile(files, path);
  if (!profile) return fail(profile.error());
  return hardware_of(std::move(*profile));
}

}  // namespace sculler::emu
