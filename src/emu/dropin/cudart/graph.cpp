// Graphs made by capture: instantiate, launch, destroy. Graphs built node by node are not known.
#include "runtime.h"

namespace sculler::emu::cudart {

SCULLER_EXPORT_C cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph,
                                                  unsigned long long) {
  wire::GraphInstantiate request;
  request.graph = number(graph);
  wire::HandleReply reply;
  const int code = client::call(request, reply);
  *out = handle_of<cudaGraphExec_t>(reply.handle);
  return finish(code);
}
SCULLER_EXPORT_C cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph,
                                                           unsigned long long flags) {
  return cudaGraphInstantiate(out, graph, flags);
}
SCULLER_EXPORT_C cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  wire::GraphLaunch request;
  request.exec = number(exec);
  request.stream = number(stream);
  return finish(client::call(request));
}
SCULLER_EXPORT_C cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return finish(cudaSuccess);
}
SCULLER_EXPORT_C cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  wire::GraphDestroy request;
  request.handle = number(graph);
  return finish(client::call(request));
}
SCULLER_EXPORT_C cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  wire::GraphExecDestroy request;
  request.handle = number(exec);
  return finish(client::call(request));
}
SCULLER_EXPORT_C cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                               size_t* n) {
  if (nodes != nullptr)
    return not_supported("cudaGraphGetNodes", "the nodes themselves; their number is known");
  wire::GraphInfo request;
  request.graph = number(graph);
  wire::GraphReply reply;
  const int code = client::call(request, reply);
  *n = reply.nodes;
  return finish(code);
}

}  // namespace sculler::emu::cudart
