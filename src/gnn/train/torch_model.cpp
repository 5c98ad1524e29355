// GraphSAGE and GAT on libtorch. The only file that sees its headers. Sums over neighbours are
// operations of our own for libtorch's autograd: libtorch 1.13 has no ordered segment sum.
#include <torch/torch.h>

#include <cmath>

#include "gnn/train/model.h"

namespace sculler::gnn {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A block outlives the step that uses it, so a context keeps its address.
c10::IValue held(const Block& block) { return c10::IValue(reinterpret_cast<int64_t>(&block)); }
const Block& block_of(AutogradContext* context) {
  return *reinterpret_cast<const Block*>(context->saved_data["block"].toInt());
}

void add(float* to, const float* from, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

// Row i: the mean of its sources' rows; 0 where it has none.
class Mean : public torch::autograd::Function<Mean> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Block* block) {
    context->saved_data["block"] = held(*block);
    context->saved_data["rows"] = x.size(0);
    const Tensor in = x.contiguous();
    const int64_t width = in.size(1);
    Tensor out = torch::zeros({block->destinations(), width});
    const auto* from = in.data_ptr<float>();
    auto* to = out.data_ptr<float>();
    for (uint32_t i = 0; i < block->destinations(); ++i) {
      const uint32_t begin = block->offsets[i], end = block->offsets[i + 1];
      if (begin == end) continue;
      const float share = 1.0F / static_cast<float>(end - begin);
      for (uint32_t e = begin; e < end; ++e)
        add(to + i * width, from + block->sources[e] * width, width, share);
    }
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Block& block = block_of(context);
    const Tensor grad = grads[0].contiguous();
    const int64_t width = grad.size(1);
    Tensor out = torch::zeros({context->saved_data["rows"].toInt(), width});
    const auto* from = grad.data_ptr<float>();
    auto* to = out.data_ptr<float>();
    for (uint32_t i = 0; i < block.destinations(); ++i) {
      const uint32_t begin = block.offsets[i], end = block.offsets[i + 1];
      if (begin == end) continue;
      const float share = 1.0F / static_cast<float>(end - begin);
      for (uint32_t e = begin; e < end; ++e)
        add(to + block.sources[e] * width, from + i * width, width, share);
    }
    return {out, Tensor()};
  }
};

// Row e: the row of edge e's source.
class AtSources : public torch::autograd::Function<AtSources> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Block* block) {
    context->saved_data["block"] = held(*block);
    context->saved_data["rows"] = x.size(0);
    const Tensor in = x.contiguous();
    const int64_t width = in.size(1);
    Tensor out = torch::zeros({static_cast<int64_t>(block->sources.size()), width});
    for (size_t e = 0; e < block->sources.size(); ++e)
      add(out.data_ptr<float>() + static_cast<int64_t>(e) * width,
          in.data_ptr<float>() + block->sources[e] * width, width, 1);
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const Block& block = block_of(context);
    const Tensor grad = grads[0].contiguous();
    const int64_t width = grad.size(1);
    Tensor out = torch::zeros({context->saved_data["rows"].toInt(), width});
    for (size_t e = 0; e < block.sources.size(); ++e)
      add(out.data_ptr<float>() + block.sources[e] * width,
          grad.data_ptr<float>() + static_cast<int64_t>(e) * width, width, 1);
    return {out, Tensor()};
  }
};

// Row i: the sum of its edges' rows; and the other way round, the row of edge e's destination.
Tensor sum_edges(const Tensor& edges, const Block& block) {
  const Tensor in = edges.contiguous();
  const int64_t width = in.size(1);
  Tensor out = torch::zeros({block.destinations(), width});
  for (uint32_t i = 0; i < block.destinations(); ++i)
    for (uint32_t e = block.offsets[i]; e < block.offsets[i + 1]; ++e)
      add(out.data_ptr<float>() + i * width, in.data_ptr<float>() + e * width, width, 1);
  return out;
}
Tensor spread(const Tensor& rows, const Block& block) {
  const Tensor in = rows.contiguous();
  const int64_t width = in.size(1);
  Tensor out = torch::zeros({static_cast<int64_t>(block.sources.size()), width});
  for (uint32_t i = 0; i < block.destinations(); ++i)
    for (uint32_t e = block.offsets[i]; e < block.offsets[i + 1]; ++e)
      add(out.data_ptr<float>() + e * width, in.data_ptr<float>() + i * width, width, 1);
  return out;
}

class SumEdges : public torch::autograd::Function<SumEdges> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& edges, const Block* block) {
    context->saved_data["block"] = held(*block);
    return sum_edges(edges, *block);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {spread(grads[0], block_of(context)), Tensor()};
  }
};

class AtDestinations : public torch::autograd::Function<AtDestinations> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& rows, const Block* block) {
    context->saved_data["block"] = held(*block);
    return spread(rows, *block);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {sum_edges(grads[0], block_of(context)), Tensor()};
  }
};

// Row i: the largest of row i of `own` and of its edges' rows, by column; no gradient.
Tensor largest(const Tensor& own, const Tensor& edges, const Block& block) {
  const Tensor in = edges.detach().contiguous();
  Tensor out = own.detach().clone().contiguous();
  const int64_t width = in.size(1);
  const auto* from = in.data_ptr<float>();
  auto* to = out.data_ptr<float>();
  for (uint32_t i = 0; i < block.destinations(); ++i)
    for (uint32_t e = block.offsets[i]; e < block.offsets[i + 1]; ++e)
      for (int64_t h = 0; h < width; ++h)
        to[i * width + h] = std::max(to[i * width + h], from[e * width + h]);
  return out;
}

struct Layer {
  Tensor self, neighbours, bias;         // GraphSAGE
  Tensor from_source, from_destination;  // GAT: heads × width
};

class TorchModel final : public Model {
 public:
  explicit TorchModel(const ModelSettings& settings) : settings_(settings) {
    torch::set_num_threads(1);
    const bool gat = settings.kind == "gat";
    for (uint32_t l = 0; l < settings.layers; ++l) {
      const bool last = l + 1 == settings.layers;
      const int64_t in = l == 0 ? settings.dim : settings.hidden;
      const int64_t out = last ? settings.classes : settings.hidden;
      Layer layer;
      if (gat) {
        const int64_t heads = heads_of(l), width = out / heads;
        layer.neighbours = weight({in, out}, in);
        layer.from_source = weight({heads, width}, width);
        layer.from_destination = weight({heads, width}, width);
      } else {
        layer.self = weight({in, out}, in);
        layer.neighbours = weight({in, out}, in);
      }
      layer.bias = keep(torch::zeros({out}));
      layers_.push_back(layer);
    }
    optimizer_ = std::make_unique<torch::optim::Adam>(
        tensors_, torch::optim::AdamOptions(settings.learning_rate));
    for (const Tensor& t : tensors_) count_ += static_cast<uint64_t>(t.numel());
  }

  [[nodiscard]] uint64_t parameters() const override { return count_; }

  [[nodiscard]] Outcome learn(const Batch& batch, float* gradient) override {
    optimizer_->zero_grad();
    const Tensor scores = forward(batch);
    const Tensor loss = loss_of(scores, batch);
    loss.backward();
    size_t at = 0;
    for (const Tensor& t : tensors_) {
      const auto n = static_cast<size_t>(t.numel());
      const Tensor grad = t.grad().defined() ? t.grad().contiguous() : torch::zeros_like(t);
      std::copy_n(grad.data_ptr<float>(), n, gradient + at);
      at += n;
    }
    return outcome(scores, loss, batch);
  }

  [[nodiscard]] Outcome judge(const Batch& batch) override {
    const torch::NoGradGuard no_gradient;
    const Tensor scores = forward(batch);
    return outcome(scores, loss_of(scores, batch), batch);
  }

  void step(const float* gradient) override {
    size_t at = 0;
    for (Tensor& t : tensors_) {
      const auto n = static_cast<size_t>(t.numel());
      if (!t.grad().defined()) t.mutable_grad() = torch::zeros_like(t);
      std::copy_n(gradient + at, n, t.mutable_grad().data_ptr<float>());
      at += n;
    }
    optimizer_->step();
    ++steps_;
  }

  // Parameters, first moments, second moments, and the number of steps in two floats (24 bits
  // each).
  [[nodiscard]] std::vector<float> save() const override {
    std::vector<float> out;
    const auto put = [&out](const Tensor& t) {
      const Tensor flat = t.detach().contiguous();
      out.insert(out.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    };
    for (const Tensor& t : tensors_) put(t);
    for (const bool second : {false, true})
      for (const Tensor& t : tensors_) {
        const auto* state = adam(t);
        put(state == nullptr ? torch::zeros_like(t)
            : second         ? state->exp_avg_sq()
                             : state->exp_avg());
      }
    out.push_back(static_cast<float>(steps_ >> 24));
    out.push_back(static_cast<float>(steps_ & 0xFFFFFF));
    return out;
  }

  [[nodiscard]] Status load(const std::vector<float>& state) override {
    if (state.size() != 3 * count_ + 2)
      return fail({ErrorCode::kBadInput,
                   "holds " + std::to_string(state.size()) + " numbers, this model has " +
                       std::to_string(3 * count_ + 2),
                   {},
                   {},
                   "Resume with the settings of the run that wrote it."});
    const torch::NoGradGuard no_gradient;
    const float* at = state.data();
    const auto take = [&at](const Tensor& like) {
      Tensor out = torch::empty_like(like, like.options().requires_grad(false));
      std::copy_n(at, like.numel(), out.data_ptr<float>());
      at += like.numel();
      return out;
    };
    for (Tensor& t : tensors_) t.copy_(take(t));
    std::vector<std::unique_ptr<torch::optim::AdamParamState>> states;
    for (const Tensor& t : tensors_) {
      states.push_back(std::make_unique<torch::optim::AdamParamState>());
      states.back()->exp_avg(take(t));
    }
    for (size_t i = 0; i < tensors_.size(); ++i) states[i]->exp_avg_sq(take(tensors_[i]));
    steps_ = (static_cast<uint64_t>(at[0]) << 24) + static_cast<uint64_t>(at[1]);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      states[i]->step(static_cast<int64_t>(steps_));
      const std::string key = c10::guts::to_string(tensors_[i].unsafeGetTensorImpl());
      if (steps_ == 0) optimizer_->state().erase(key);
      else optimizer_->state()[key] = std::move(states[i]);
    }
    return {};
  }

 private:
  [[nodiscard]] uint32_t heads_of(uint32_t layer) const {
    return layer + 1 == settings_.layers ? 1 : settings_.heads;
  }
  Tensor keep(Tensor t) {
    t.set_requires_grad(true);
    tensors_.push_back(t);
    return t;
  }
  // Uniform, of variance 1 / (3 inputs), by position.
  Tensor weight(std::vector<int64_t> shape, int64_t inputs) {
    Tensor t = torch::zeros(shape);
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    const uint64_t number = tensors_.size();
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data_ptr<float>()[i] =
          static_cast<float>(bound * settings_.weight(number, static_cast<uint64_t>(i)));
    return keep(t);
  }
  [[nodiscard]] const torch::optim::AdamParamState* adam(const Tensor& t) const {
    const auto& all = optimizer_->state();
    const auto at = all.find(c10::guts::to_string(t.unsafeGetTensorImpl()));
    return at == all.end() ? nullptr
                           : static_cast<const torch::optim::AdamParamState*>(at->second.get());
  }

  [[nodiscard]] Tensor sage(const Layer& layer, const Tensor& x, const Block& block) const {
    const Tensor mean = Mean::apply(x, &block);
    return x.slice(0, 0, block.destinations()).mm(layer.self) + mean.mm(layer.neighbours) +
           layer.bias;
  }

  // Each node is among its own sources by its own score, so that isolated ones have a value.
  [[nodiscard]] Tensor gat(const Layer& layer, const Tensor& x, const Block& block,
                           uint32_t heads) const {
    const Tensor h = x.mm(layer.neighbours);
    const int64_t width = h.size(1) / heads;
    const auto score = [&](const Tensor& by) {
      return (h.view({-1, heads, width}) * by.unsqueeze(0)).sum(2);
    };
    const Tensor from = score(layer.from_source);
    const int64_t n = block.destinations();
    const Tensor to = score(layer.from_destination).slice(0, 0, n);
    const auto leaky = [](const Tensor& t) { return torch::leaky_relu(t, 0.2); };
    const Tensor own = leaky(from.slice(0, 0, n) + to);
    const Tensor edges = leaky(AtSources::apply(from, &block) + AtDestinations::apply(to, &block));
    const Tensor most = largest(own, edges, block);  // so that no exp overflows
    const Tensor own_share = (own - most).exp();
    const Tensor share = (edges - spread(most, block)).exp();
    const Tensor all = own_share + SumEdges::apply(share, &block);
    const auto widen = [&](const Tensor& t) {
      return t.unsqueeze(2).expand({-1, -1, width}).reshape({-1, heads * width});
    };
    const Tensor sum = widen(own_share) * h.slice(0, 0, n) +
                       SumEdges::apply(widen(share) * AtSources::apply(h, &block), &block);
    return sum / widen(all) + layer.bias;
  }

  [[nodiscard]] Tensor forward(const Batch& batch) const {
    // libtorch reads it only; from_blob has no const.
    auto* data = const_cast<float*>(batch.features);
    Tensor x = torch::from_blob(data, {static_cast<int64_t>(batch.sample.nodes.size()),
                                       static_cast<int64_t>(settings_.dim)});
    for (uint32_t l = 0; l < settings_.layers; ++l) {
      const Block& block = batch.sample.blocks[settings_.layers - 1 - l];
      x = settings_.kind == "gat" ? gat(layers_[l], x, block, heads_of(l))
                                  : sage(layers_[l], x, block);
      if (l + 1 < settings_.layers) x = settings_.kind == "gat" ? torch::elu(x) : torch::relu(x);
    }
    return x;
  }

  [[nodiscard]] static Tensor labels_of(const Batch& batch) {
    auto* labels = const_cast<int32_t*>(batch.labels);
    return torch::from_blob(labels, {static_cast<int64_t>(batch.sample.seeds)}, torch::kInt32)
        .to(torch::kInt64);
  }
  [[nodiscard]] static Tensor loss_of(const Tensor& scores, const Batch& batch) {
    return torch::nn::functional::cross_entropy(
        scores, labels_of(batch),
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  }
  [[nodiscard]] static Outcome outcome(const Tensor& scores, const Tensor& loss,
                                       const Batch& batch) {
    const auto right = (scores.detach().argmax(1) == labels_of(batch)).sum().item<int64_t>();
    return {static_cast<double>(loss.item<float>()), static_cast<uint64_t>(right)};
  }

  ModelSettings settings_;
  std::vector<Layer> layers_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<torch::optim::Adam> optimizer_;
  uint64_t count_ = 0, steps_ = 0;
};

}  // namespace

Result<std::unique_ptr<Model>> make_torch_model(const ModelSettings& settings) {
  if (settings.kind != "sage" && settings.kind != "gat")
    return fail({ErrorCode::kUsage,
                 "there is no such model",
                 {},
                 "--model " + settings.kind,
                 "Use sage or gat."});
  if (settings.kind == "gat" && settings.layers > 1 && settings.hidden % settings.heads != 0)
    return fail({ErrorCode::kUsage,
                 "is no multiple of the heads, " + std::to_string(settings.heads),
                 {},
                 "--hidden " + std::to_string(settings.hidden),
                 {}});
  return std::make_unique<TorchModel>(settings);
}

}  // namespace sculler::gnn
