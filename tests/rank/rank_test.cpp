#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "rank/channel.h"
#include "rank/multicast.h"
#include "rank/spec.h"

namespace sculler::rank {
namespace {

class Channel : public testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    a = UniqueFd(pair[0]);
    b = UniqueFd(pair[1]);
  }
  UniqueFd a, b;
};

TEST_F(Channel, CarriesMessageAndDescriptor) {
  Message m;
  m.kind = Kind::kPool;
  m.u[1] = 42;
  set_text(m, "hello\x1b[2J");
  ASSERT_TRUE(send_message(a.get(), m, STDERR_FILENO));
  Packet p = receive_message(b.get(), false);
  ASSERT_EQ(p.kind, Packet::Kind::kMessage);
  EXPECT_EQ(p.message.u[1], 42u);
  EXPECT_TRUE(p.fd);
  EXPECT_EQ(text_of(p.message).find('\x1b'), std::string::npos);
  EXPECT_EQ(receive_message(b.get(), true).kind, Packet::Kind::kEmpty);
}

TEST_F(Channel, TextIsBounded) {
  Message m;
  set_text(m, std::string(10'000, 'x'));
  EXPECT_EQ(m.text_bytes, kTextBytes);
  m.text_bytes = 0xffffffff;
  EXPECT_EQ(text_of(m).size(), kTextBytes);
  ASSERT_TRUE(send_message(a.get(), m));
  EXPECT_EQ(receive_message(b.get(), false).kind, Packet::Kind::kMalformed);
}

TEST_F(Channel, RefusesWhatIsNoMessage) {
  Message m;
  char longer[sizeof(Message) + 8] = {};
  std::memcpy(longer, &m, sizeof m);
  ASSERT_GT(::send(a.get(), longer, sizeof longer, 0), 0);
  EXPECT_EQ(receive_message(b.get(), false).kind, Packet::Kind::kMalformed);
  ASSERT_GT(::send(a.get(), longer, 7, 0), 0);
  EXPECT_EQ(receive_message(b.get(), false).kind, Packet::Kind::kMalformed);
  m.magic = 1;
  ASSERT_TRUE(send_message(a.get(), m));
  EXPECT_EQ(receive_message(b.get(), false).kind, Packet::Kind::kMalformed);
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 256; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

TEST_F(Channel, SurplusDescriptorsAreClosed) {
  const int before = open_descriptors();
  Message m;
  iovec part{&m, sizeof m};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&header);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(8 * sizeof(int));
  const int fds[8] = {0, 1, 2, 0, 1, 2, 0, 1};
  std::memcpy(CMSG_DATA(c), fds, sizeof fds);
  ASSERT_GT(::sendmsg(a.get(), &header, 0), 0);
  EXPECT_EQ(receive_message(b.get(), false).kind, Packet::Kind::kMalformed);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Channel, EndIsSeen) {
  a.reset();
  EXPECT_EQ(receive_message(b.get(), false).kind, Packet::Kind::kClosed);
  EXPECT_FALSE(send_message(b.get(), Message{}));
}

TEST(Multicast, VariablesAreDemanded) {
  for (const char* name :
       {"NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS"}) {
    set_multicast_off();
    EXPECT_TRUE(require_multicast_off());
    ::unsetenv(name);
    auto missing = require_multicast_off();
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().message.find(name), std::string::npos);
  }
  ::setenv("NCCL_NVLS_ENABLE", "1", 1);
  EXPECT_FALSE(require_multicast_off());
}

TEST(Multicast, RefusedFunctionReturnsNotPermitted) {
  void* library = dlopen(SCULLER_FAKE_DRIVER, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  auto create = reinterpret_cast<int (*)(void*)>(dlsym(library, "cuMulticastCreate"));
  auto other = reinterpret_cast<int (*)()>(dlsym(library, "cuInit"));
  ASSERT_EQ(create(nullptr), 0);
  auto done = refuse_function(reinterpret_cast<void*>(create));
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(create(nullptr), 800);
  EXPECT_EQ(other(), 5);
}

TEST(RankSpec, ParsesTheDocumentedExample) {
  auto spec = parse_rank_spec(
      R"({"version":1,"target":"emu","n_ranks":2,"candidate":"candidate.so","backend":"rank_backend.so",
 "problem":{"dims":[512,256,512]},"n_sets":8,"buffers":[{"name":"A","bytes":131072},{"name":"B","bytes":262144},{"name":"C","bytes":524288}],
 "workload":true,"n_threads":2,"expect_nccl":22809,"libraries":["/abs/libcudart.so.13","/abs/libnccl.so.2"],"multicast_allowed":false})");
  ASSERT_TRUE(spec) << spec.error().text();
  EXPECT_EQ(spec->n_ranks, 2);
  EXPECT_EQ(spec->buffers[2].bytes, 524288u);
  EXPECT_EQ(spec->libraries.size(), 2u);
  EXPECT_FALSE(parse_rank_spec(R"({"version":2})"));
  EXPECT_FALSE(parse_rank_spec(
      R"({"version":1,"target":"cpu","candidate":"c","problem":{"dims":[1]},"buffers":[]})"));
  EXPECT_FALSE(parse_rank_spec(
      R"({"version":1,"target":"cuda","candidate":"c","problem":{"dims":[1]},"buffers":[{"bytes":4}]})"));
  EXPECT_FALSE(parse_rank_spec(
      R"({"version":1,"target":"cpu","candidate":"c","problem":{"dims":[1]},"buffers":[{"bytes":4}],"libraries":["x.so"]})"));
}

}  // namespace
}  // namespace sculler::rank
