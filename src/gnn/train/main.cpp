// sculler-gnn-train: one rank of a distributed training. Started by `sculler-gnn train`.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/strings.h"
#include "gnn/train/mpi_net.h"
#include "gnn/train/options.h"

using namespace sculler;
using namespace sculler::gnn;

namespace {

int complain(const Error& error, bool json, const std::string& who) {
  if (json) std::puts(dump_json(error_json(error)).c_str());
  else
    std::fputs(("sculler-gnn train" + who + ": " + printable(error.text(), true) + "\n").c_str(),
               stderr);
  std::fflush(stdout);
  return static_cast<int>(error.code);
}

}  // namespace

int main(int argc, char** argv) {
  auto options = parse_train_options({argv + 1, argv + argc});
  if (!options) return complain(options.error(), false, "");
  if (!options->help.empty()) {
    std::fputs(options->help.c_str(), stdout);
    return 0;
  }
  auto world = MpiWorld::start(&argc, &argv);
  if (!world) return complain(world.error(), options->json, "");
  auto net = (*world)->net(options->settings.timeout_s);
  if (!net) (*world)->abort(complain(net.error(), options->json, ""));
  const auto ended =
      train(options->settings, **net, make_torch_model, [&](const nlohmann::json& event) {
        const std::string text = options->json ? dump_json(event) : event_text(event);
        if (!text.empty()) std::puts(text.c_str());
        std::fflush(stdout);
      });
  if (ended.status) return 0;
  const Error& error = ended.status.error();
  const uint32_t rank = (*world)->rank();
  if (ended.together && ended.rank != rank) return static_cast<int>(error.code);
  const int code = complain(error, options->json, ": rank " + std::to_string(rank));
  if (!ended.together) (*world)->abort(code);
  return code;
}
