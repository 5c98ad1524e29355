// Stands in for libcuda where its code is overwritten.
extern "C" __attribute__((visibility("default"), noinline)) int cuMulticastCreate(void* p) {
  return p != nullptr ? 1 : 0;
}
extern "C" __attribute__((visibility("default"), noinline)) int cuInit() { return 5; }
