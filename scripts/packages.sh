# Sourced by ./quickstart, ./test and scripts/fresh-debian: installs what packages.txt lists and the machine lacks.
# Functions: packages_of GROUP SOURCE · train_group · install_apt GROUP... · install_cuda · install_cutlass · have_cuda

sculler_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sculler_prefix=${SCULLER_PREFIX:-${XDG_DATA_HOME:-$HOME/.local/share}/sculler}
nccl_version_code=22809

say() { printf '%s\n' "sculler: $*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null 2>&1; then sudo "$@"
  else die "needs root to install packages: run as root, install sudo, or install by hand: $*"; fi
}

packages_of() { awk -v g="$1" -v s="$2" '$1==g && $2==s {print $3}' "$sculler_root/packages.txt"; }

# Empty where the trainer of sculler-gnn is not wanted.
train_group() { [ "${SCULLER_TRAIN:-1}" = 0 ] || echo train; }

install_apt() {
  command -v apt-get >/dev/null 2>&1 || { say "no apt-get here: install by hand: $(for g in "$@"; do packages_of "$g" apt; done | tr '\n' ' ')"; return 0; }
  local missing=() name
  for name in $(for g in "$@"; do packages_of "$g" apt; done); do
    dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
  done
  [ ${#missing[@]} = 0 ] && return 0
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  if ! as_root apt-get update -qq >/dev/null 2>&1; then say "apt-get update failed; trying with the lists at hand"; fi
  as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >"${TMPDIR:-/tmp}/sculler-apt.log" 2>&1 && return 0
  tail -n 5 "${TMPDIR:-/tmp}/sculler-apt.log" >&2
  die "could not install: ${missing[*]}. Without a network, copy their .deb files here (on a connected machine: apt-get download NAME) and run: dpkg -i *.deb; then run this again."
}

# True where a CUDA compiler with the headers of the NCCL that the emulator knows is at hand; sets sculler_cuda_home.
have_cuda() {
  local home
  for home in "${SCULLER_CUDA_HOME:-}" "${CUDA_HOME:-}" /usr/local/cuda "$sculler_prefix/cuda"; do
    [ -n "$home" ] && [ -x "$home/bin/nvcc" ] && [ -f "$home/include/nccl_device.h" ] || continue
    grep -q "NCCL_VERSION_CODE $nccl_version_code" "$home/include/nccl.h" || continue
    sculler_cuda_home=$home
    return 0
  done
  return 1
}

pip_into() {  # pip_into FOLDER GROUP: one call for the whole group
  local target=$1 group=$2
  mapfile -t wanted < <(packages_of "$group" pip)
  python3 -m pip install --quiet --disable-pip-version-check --no-input --no-compile --no-deps --upgrade --target "$target" "${wanted[@]}" ||
    die "could not fetch ${wanted[*]}. Without a network, fetch them elsewhere (python3 -m pip download --no-deps -d wheels ${wanted[*]}), copy the folder here and set PIP_NO_INDEX=1 PIP_FIND_LINKS=\$PWD/wheels; or point SCULLER_CUDA_HOME at a toolkit that has nvcc and nccl_device.h."
}

install_cuda() {
  have_cuda && return 0
  say "no CUDA compiler with NCCL 2.28.9 headers here: taking one from PyPI into $sculler_prefix/cuda (1 GB)"
  local work=$sculler_prefix/cuda.partial
  rm -rf "$work"; mkdir -p "$work"
  pip_into "$work" cuda
  local tree=$work/nvidia/cu13
  [ -x "$tree/bin/nvcc" ] || chmod +x "$tree"/bin/* "$tree"/nvvm/bin/* 2>/dev/null || true
  [ -x "$tree/bin/nvcc" ] || die "the CUDA wheels hold no nvcc where expected ($tree/bin)"
  cp -r "$work"/nvidia/nccl/include/. "$tree/include/"
  cp "$work"/nvidia/nccl/lib/libnccl.so.2 "$tree/lib/"
  ln -sfn lib "$tree/lib64"
  local lib
  for lib in libcudart.so.13:libcudart.so libcublas.so.13:libcublas.so libcublasLt.so.13:libcublasLt.so libnccl.so.2:libnccl.so; do
    [ -e "$tree/lib/${lib%%:*}" ] && ln -sfn "${lib%%:*}" "$tree/lib/${lib##*:}"
  done
  rm -rf "$sculler_prefix/cuda"; mv "$tree" "$sculler_prefix/cuda"; rm -rf "$work"
  have_cuda || die "the CUDA wheels were unpacked into $sculler_prefix/cuda but do not look like a toolkit; remove that folder and try again"
}

install_cutlass() {
  [ -f "$sculler_prefix/cutlass/include/cutlass/cutlass.h" ] && return 0
  local work=$sculler_prefix/cutlass.partial
  rm -rf "$work"; mkdir -p "$work"
  pip_into "$work" cutlass
  rm -rf "$sculler_prefix/cutlass"; mv "$work/cutlass_library/source" "$sculler_prefix/cutlass"; rm -rf "$work"
}
