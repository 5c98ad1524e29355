// A CUTLASS 4.2 Hopper GEMM for candidates that declare `// sculler:requires cutlass`: C = A * B^T for a block of rows,
// written by TMA to one destination or to several (peers' windows work: a tensor map takes any mapped address).
#ifndef SCULLER_GEMM_ALLGATHER_CUTLASS_GEMM_H
#define SCULLER_GEMM_ALLGATHER_CUTLASS_GEMM_H

// An assert in CUTLASS's kernels is a function call, and across a call the compiler serialises wgmma (ptxas C7510).
#ifndef NDEBUG
#define NDEBUG
#endif
#include <cassert>

#include <cuda_runtime.h>

#include <tuple>
#include <type_traits>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/fusion/sm90_visitor_store_tma_warpspecialized.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

namespace ga {

// An epilogue node that stages the tile once in shared memory and stores it by TMA to up to kMaxDestinations matrices of
// one shape. It is Sm90AuxStore with the last step, tma_store, repeated for each destination.
template <int kMaxDestinations, int kStages, class AuxStore>
struct StoreToAll : AuxStore {
  using Element = typename AuxStore::ElementAux;
  using TmaStore = typename AuxStore::Params::TMA_Aux;

  struct Arguments {
    Element* destination[kMaxDestinations] = {};
    int count = 0;
    decltype(typename AuxStore::Arguments{}.dAux) stride = {};
  };
  struct Params {
    typename AuxStore::Params first;
    TmaStore store[kMaxDestinations];
    int count = 0;
  };

  template <class ProblemShape>
  static Params to_underlying_arguments(ProblemShape const& shape, Arguments const& args,
                                        void* workspace) {
    Params params;
    params.count = args.count;
    params.first = AuxStore::to_underlying_arguments(shape, {args.destination[0], args.stride},
                                                     workspace);
    for (int i = 0; i < args.count; ++i)
      params.store[i] =
          AuxStore::to_underlying_arguments(shape, {args.destination[i], args.stride}, workspace)
              .tma_store_aux;
    return params;
  }
  template <class ProblemShape>
  static bool can_implement(ProblemShape const&, Arguments const& args) {
    return args.count >= 1 && args.count <= kMaxDestinations;
  }
  template <class ProblemShape>
  static size_t get_workspace_size(ProblemShape const&, Arguments const&) {
    return 0;
  }
  template <class ProblemShape>
  static cutlass::Status initialize_workspace(ProblemShape const&, Arguments const&, void*,
                                              cudaStream_t, cutlass::CudaHostAdapter* = nullptr) {
    return cutlass::Status::kSuccess;
  }

  CUTLASS_HOST_DEVICE StoreToAll() {}
  CUTLASS_HOST_DEVICE StoreToAll(Params const& params,
                                 typename AuxStore::SharedStorage const& shared)
      : AuxStore(params.first, shared), all(&params) {}
  Params const* all;

  template <class Base>
  struct Callbacks : Base {
    CUTLASS_DEVICE Callbacks(Base&& base, Params const* params)
        : Base(static_cast<Base&&>(base)), all(params) {}
    Params const* all;
    CUTLASS_DEVICE void tma_store(int epi_m, int epi_n, int iteration, bool issue) {
      if (!issue) return;
      const int stage = iteration % kStages;
      for (int i = 0; i < all->count; ++i)
        cute::copy(all->store[i], this->bSG_sAux(cute::_, cute::_, cute::_, stage),
                   this->bSG_gAux(cute::_, cute::_, cute::_, epi_m, epi_n));
    }
  };
  template <bool kReferenceSource, class... Args>
  CUTLASS_DEVICE auto get_consumer_store_callbacks(
      cutlass::epilogue::fusion::detail::ConsumerStoreArgs<Args...> const& args) {
    auto base = AuxStore::template get_consumer_store_callbacks<kReferenceSource>(args);
    return Callbacks<decltype(base)>(static_cast<decltype(base)&&>(base), all);
  }
};

// A tile, a cluster of them, and how two math warp groups share the work of a block: cooperative (both on one tile) or
// ping-pong (one multiplies while the other stores; each has a tile of its own).
template <int kM, int kN, int kClusterRows, int kClusterColumns, bool kPingPongs>
struct Shape {
  static constexpr int kTileM = kM, kTileN = kN;
  static constexpr int kClusterM = kClusterRows, kClusterN = kClusterColumns;
  static constexpr bool kPingPong = kPingPongs;
};
using Cooperative128x256 = Shape<128, 256, 2, 1, false>;
using Cooperative128x256Wide = Shape<128, 256, 1, 2, false>;
using Cooperative256x128 = Shape<256, 128, 2, 1, false>;
using PingPong64x256 = Shape<64, 256, 2, 1, true>;
using PingPong128x128 = Shape<128, 128, 2, 1, true>;
template <int kIndex>
using ShapeOf = std::tuple_element_t<
    kIndex, std::tuple<Cooperative128x256, Cooperative128x256Wide, Cooperative256x128,
                       PingPong64x256, PingPong128x128>>;

// Warp-specialised, persistent, one block a multiprocessor.
// kMaxDestinations 0: one destination through the collective's own output. Otherwise StoreToAll.
// kStoreColumns: width of a staged piece of the tile; a TMA store writes rows of twice as many bytes, at most 128.
template <int kMaxDestinations, class Shape_ = Cooperative128x256, int kStoreColumns = 32>
struct Gemm {
  using Bf16 = cutlass::bfloat16_t;
  using RowMajor = cutlass::layout::RowMajor;
  using ColumnMajor = cutlass::layout::ColumnMajor;
  using Tile = cute::Shape<cute::Int<Shape_::kTileM>, cute::Int<Shape_::kTileN>, cute::_64>;
  using Cluster = cute::Shape<cute::Int<Shape_::kClusterM>, cute::Int<Shape_::kClusterN>, cute::_1>;
  using MainSchedule =
      std::conditional_t<Shape_::kPingPong, cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                         cutlass::gemm::KernelTmaWarpSpecializedCooperative>;
  using EpilogueSchedule =
      std::conditional_t<Shape_::kPingPong, cutlass::epilogue::TmaWarpSpecialized,
                         cutlass::epilogue::TmaWarpSpecializedCooperative>;
  using Staged = cute::Shape<cute::Int<Shape_::kPingPong ? 64 : 128>, cute::Int<kStoreColumns>>;
  using Descriptor = cutlass::epilogue::collective::detail::EpilogueDescriptor<Tile, Staged, void, Bf16,
                                                                               EpilogueSchedule>;
  using Aux = cutlass::epilogue::collective::detail::AuxStoreDescriptor<Descriptor, RowMajor, Bf16>;
  using Accumulators = cutlass::epilogue::fusion::Sm90AccFetch;
  using AuxStore = cutlass::epilogue::fusion::Sm90AuxStore<
      Aux::Stages, typename Descriptor::EpilogueTile, typename Aux::Element,
      cutlass::FloatRoundStyle::round_to_nearest, typename Aux::Stride, typename Aux::SmemLayoutAtom,
      typename Aux::CopyOpR2S>;
  static constexpr int kSlots = kMaxDestinations > 0 ? kMaxDestinations : 1;
  using ToAll =
      cutlass::epilogue::fusion::Sm90EVT<StoreToAll<kSlots, Aux::Stages, AuxStore>, Accumulators>;
  static constexpr bool kToAll = kMaxDestinations > 0;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster, Staged, float, float, void,
      RowMajor, 8, std::conditional_t<kToAll, void, Bf16>, RowMajor, 8, EpilogueSchedule,
      std::conditional_t<kToAll, ToAll, Accumulators>>::CollectiveOp;
  using MainLoop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Bf16, RowMajor, 8, Bf16, ColumnMajor, 8,
      float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Epilogue::SharedStorage))>,
      MainSchedule>::CollectiveOp;
  using Kernel =
      cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, MainLoop, Epilogue>;
  using Device = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  Device device;

  // destination[i]: where the block of `rows` rows of C starts in matrix i (pitch n). Builds the tensor maps: not for the
  // timed path. raster 0: the library's choice, 1: along M, 2: along N. Returns 0, or the cutlass::Status.
  int prepare(int64_t rows, int64_t n, int64_t k, const void* a, const void* b,
              void* const* destination, int count, int raster, int swizzle, int multiprocessors) {
    const int m_ = static_cast<int>(rows), n_ = static_cast<int>(n), k_ = static_cast<int>(k);
    auto* first = static_cast<Bf16*>(destination[0]);
    typename Kernel::Arguments arguments{
        cutlass::gemm::GemmUniversalMode::kGemm,
        {m_, n_, k_, 1},
        {static_cast<const Bf16*>(a),
         cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m_, k_, 1}),
         static_cast<const Bf16*>(b),
         cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n_, k_, 1})},
        {{},
         nullptr,
         {},
         kToAll ? nullptr : first,
         cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m_, n_, 1})}};
    if constexpr (kToAll) {
      typename StoreToAll<kSlots, Aux::Stages, AuxStore>::Arguments store;
      for (int i = 0; i < count && i < kSlots; ++i)
        store.destination[i] = static_cast<Bf16*>(destination[i]);
      store.count = count;
      store.stride = cutlass::make_cute_packed_stride(typename Aux::Stride{}, {m_, n_, 1});
      arguments.epilogue.thread = {{}, store};
    }
    arguments.hw_info.sm_count = multiprocessors;
    cudaGetDevice(&arguments.hw_info.device_id);
    arguments.scheduler.max_swizzle_size = swizzle;
    using Raster = decltype(arguments.scheduler.raster_order);
    arguments.scheduler.raster_order = raster == 1   ? Raster::AlongM
                                       : raster == 2 ? Raster::AlongN
                                                     : Raster::Heuristic;
    if (auto status = Device::can_implement(arguments); status != cutlass::Status::kSuccess)
      return static_cast<int>(status);
    return static_cast<int>(device.initialize(arguments, nullptr));
  }
  int run(cudaStream_t stream) { return static_cast<int>(device.run(stream)); }
};

}  // namespace ga
#endif
