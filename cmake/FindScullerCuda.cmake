# Headers of CUDA and NCCL for host code: no CUDA language, no library of theirs is linked.
# Looks at -DSCULLER_CUDA_HOME, $CUDA_HOME, /usr/local/cuda and the private prefix ~/.local/share/sculler/cuda. A prefix is
# a toolkit (include/, targets/*/include) or an unpacked set of pip wheels (nvidia/cu13/include, nvidia/nccl/include).
#
# Sets ScullerCuda_FOUND, SCULLER_CUDA_INCLUDE (cuda_runtime_api.h), SCULLER_NCCL_INCLUDE (nccl.h; may be missing) and
# SCULLER_NVCC (may be missing); the target sculler::cuda_headers.
set(SCULLER_CUDA_HOME "" CACHE PATH "CUDA toolkit or the prefix of its pip wheels")

set(_sculler_cuda_roots)
foreach(root "${SCULLER_CUDA_HOME}" "$ENV{CUDA_HOME}" /usr/local/cuda "$ENV{HOME}/.local/share/sculler/cuda")
  if(root)
    list(APPEND _sculler_cuda_roots "${root}" "${root}/nvidia/cu13" "${root}/nvidia/nccl" "${root}/nvidia/cublas")
  endif()
endforeach()
set(_sculler_cuda_suffixes include targets/x86_64-linux/include)

find_path(SCULLER_CUDA_INCLUDE NAMES cuda_runtime_api.h
          HINTS ${_sculler_cuda_roots} PATH_SUFFIXES ${_sculler_cuda_suffixes} NO_DEFAULT_PATH)
find_path(SCULLER_NCCL_INCLUDE NAMES nccl_device.h
          HINTS ${_sculler_cuda_roots} PATH_SUFFIXES ${_sculler_cuda_suffixes} NO_DEFAULT_PATH)
find_path(SCULLER_CUBLAS_INCLUDE NAMES cublas_api.h
          HINTS ${_sculler_cuda_roots} PATH_SUFFIXES ${_sculler_cuda_suffixes} NO_DEFAULT_PATH)
find_program(SCULLER_NVCC NAMES nvcc HINTS ${_sculler_cuda_roots} PATH_SUFFIXES bin)
mark_as_advanced(SCULLER_CUDA_INCLUDE SCULLER_NCCL_INCLUDE SCULLER_CUBLAS_INCLUDE SCULLER_NVCC)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ScullerCuda REQUIRED_VARS SCULLER_CUDA_INCLUDE)

if(ScullerCuda_FOUND AND NOT TARGET sculler::cuda_headers)
  add_library(sculler_cuda_headers INTERFACE)
  add_library(sculler::cuda_headers ALIAS sculler_cuda_headers)
  target_include_directories(sculler_cuda_headers SYSTEM INTERFACE ${SCULLER_CUDA_INCLUDE})
endif()
