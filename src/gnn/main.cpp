// sculler-gnn: prefetching for distributed training on graphs.
#include "gnn/app.h"

int main(int argc, char** argv) {
  sculler::gnn::App app;
  return sculler::gnn::run_app(app, {argv + 1, argv + argc});
}
