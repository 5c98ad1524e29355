#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "emu/vm/tensor_map.h"
#include "emu/wire/message.h"
#include "emu/wire/socket.h"

namespace sculler::emu::wire {
namespace {

TEST(Wire, FieldsComeBack) {
  Launch sent;
  sent.kernel = 7;
  sent.grid = {1, 2, 3};
  sent.cooperative = true;
  sent.params = {1, 2, 3, 4, 5};
  Launch got;
  ASSERT_TRUE(decode(encode(sent), got));
  EXPECT_EQ(got.kernel, 7u);
  EXPECT_EQ(got.grid.z, 3u);
  EXPECT_TRUE(got.cooperative);
  EXPECT_EQ(got.params, sent.params);

  KernelReply reply;
  reply.param_offsets = {0, 8};
  reply.cluster = {2, 1, 1};
  KernelReply back;
  ASSERT_TRUE(decode(encode(reply), back));
  EXPECT_EQ(back.param_offsets, reply.param_offsets);
  EXPECT_EQ(back.cluster[0], 2u);
}

TEST(Wire, EveryTruncationAndEveryTailIsRefused) {
  LoadModule m;
  m.ptx = "some text";
  const auto bytes = encode(m);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    LoadModule got;
    EXPECT_FALSE(decode(std::span(bytes).first(n), got)) << n;
  }
  auto longer = bytes;
  longer.push_back(0);
  LoadModule got;
  EXPECT_FALSE(decode(longer, got));
}

TEST(Wire, ALengthThatLiesAllocatesNothing) {
  std::vector<uint8_t> bytes(12, 0xff);
  CommReply comm;
  EXPECT_FALSE(decode(bytes, comm));
  EXPECT_TRUE(comm.world.empty());
  LoadModule module;
  EXPECT_FALSE(decode(bytes, module));
  EXPECT_TRUE(module.ptx.empty());
}

TEST(Wire, BooleansAreZeroOrOne) {
  std::vector<uint8_t> bytes = encode(EventCreate{});
  Allocate a;
  bytes = encode(a);
  bytes[9] = 2;  // `ordered`, behind kind and bytes
  EXPECT_FALSE(decode(bytes, a));
}

TEST(Wire, RandomBytesDecodeOrNotButNeverRead) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes(random() % 200);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random() % 4 == 0 ? random() : 0);
    Launch launch;
    (void)decode(bytes, launch);
    EXPECT_LE(launch.params.size(), bytes.size());
    CopyIn copy;
    (void)decode(bytes, copy);
    EXPECT_LE(copy.data.size(), bytes.size());
  }
}

class Sockets : public ::testing::TestWithParam<int> {};

TEST_P(Sockets, LargeMessagesAndDescriptorsCross) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, GetParam(), 0, pair), 0);
  std::vector<uint8_t> sent(3 * kPieceBytes + 17);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<uint8_t>(i * 31);
  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  std::thread writer([&] { EXPECT_TRUE(send_all(pair[0], sent, pipe_fds[1])); });
  Inbox inbox;
  while (inbox.bytes().size() < sent.size())
    ASSERT_EQ(inbox.receive(pair[1], true), Inbox::Got::kSome);
  writer.join();
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), inbox.bytes().begin()));
  const int fd = inbox.take_fd();
  ASSERT_GE(fd, 0);
  EXPECT_EQ(inbox.take_fd(), -1);
  EXPECT_EQ(::write(fd, "x", 1), 1);
  inbox.consume(sent.size());
  EXPECT_EQ(inbox.receive(pair[1], false), Inbox::Got::kNothing);
  ::close(pair[0]);
  EXPECT_EQ(inbox.receive(pair[1], true), Inbox::Got::kEnd);
  EXPECT_FALSE(send_all(pair[1], sent));
  for (int f : {pair[1], fd, pipe_fds[0], pipe_fds[1]}) ::close(f);
}
INSTANTIATE_TEST_SUITE_P(Types, Sockets, ::testing::Values(SOCK_STREAM, SOCK_SEQPACKET));

TEST(TensorMap, FitsTheOpaqueBytes) { EXPECT_LE(sizeof(TensorMap), 128u); }

}  // namespace
}  // namespace sculler::emu::wire
