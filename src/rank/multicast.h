// NVLink multicast (NVLS) stays off unless the hardware profile allows it: it can put a host's GPUs
// out of service.
#pragma once

#include "base/error.h"

namespace sculler::rank {

// The variables that switch it off in NCCL, PyTorch and NVSHMEM; also module loading, which
// spinning kernels need. Error kUsage where the evaluator did not set one of them: then nobody has
// thought of it.
Status require_multicast_off();
// Sets them (again), to be called before any library of those is loaded.
void set_multicast_off();
// Makes the function return CUDA_ERROR_NOT_PERMITTED from now on, by overwriting its first
// instructions.
Status refuse_function(void* function);
// cuMulticast* of the loaded libcuda.so.1, both as exported and as cuGetProcAddress hands them out.
// Nothing to do where the library or a function is not there.
Status refuse_multicast_calls();

}  // namespace sculler::rank
