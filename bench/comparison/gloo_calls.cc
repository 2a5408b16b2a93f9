// gloo_calls RANK RANKS ADDRESS DIRECTORY DEVICE COLLECTIVE SIZE:ITERATIONS...: as mpi_calls, for Gloo over TCP.
//
// ADDRESS is this rank's own, DIRECTORY an empty one that all ranks see. Gloo has no ReduceScatter of this kind.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/link_bytes.h"

namespace {

using Context = std::shared_ptr<gloo::Context>;
using Sum = void (*)(void*, const void*, const void*, size_t);
constexpr Sum kSum = &gloo::sum<float>;
constexpr Sum kMax = &gloo::max<float>;

void AllReduce(const Context& context, float* send, float* recv, size_t count, Sum op = kSum) {
  gloo::AllreduceOptions options(context);
  options.setInput(send, count);
  options.setOutput(recv, count);
  options.setReduceFunction(op);
  gloo::allreduce(options);
}

void Call(const Context& context, const std::string& collective, float* send, float* recv, size_t count) {
  if (collective == "allreduce") {
    AllReduce(context, send, recv, count);
  } else if (collective == "reduce") {
    gloo::ReduceOptions options(context);
    options.setInput(send, count);
    options.setOutput(recv, count);
    options.setRoot(0);
    options.setReduceFunction(kSum);
    gloo::reduce(options);
  } else if (collective == "broadcast") {
    gloo::BroadcastOptions options(context);
    options.setOutput(context->rank == 0 ? send : recv, count);
    options.setRoot(0);
    gloo::broadcast(options);
  } else if (collective == "allgather") {
    const size_t part = count / static_cast<size_t>(context->size);
    gloo::AllgatherOptions options(context);
    options.setInput(send, part);
    options.setOutput(recv, part * static_cast<size_t>(context->size));
    gloo::allgather(options);
  } else {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  }
}

// Whether each element of the result is right at this rank; every element of rank r's buffer is r + 1.
bool Right(const Context& context, const std::string& collective, const std::vector<float>& recv) {
  const int ranks = context->size, rank = context->rank;
  const size_t part = recv.size() / static_cast<size_t>(ranks);
  for (size_t i = 0; i < (collective == "allgather" ? part * static_cast<size_t>(ranks) : recv.size()); ++i) {
    float expected = static_cast<float>(ranks * (ranks + 1) / 2);
    if (collective == "barrier" || (collective == "reduce" && rank != 0)) return true;
    if (collective == "broadcast") expected = 1;
    if (collective == "broadcast" && rank == 0) return true;
    if (collective == "allgather") expected = static_cast<float>(i / part + 1);
    if (recv[i] != expected) return false;
  }
  return true;
}

// The device's counters, when all ranks are here; none go on before all have read theirs. Ends the program if
// there is no such device.
LinkBytes CountBytes(const Context& context, const char* device) {
  LinkBytes bytes = {};
  Call(context, "barrier", nullptr, nullptr, 0);
  if (CountLinkBytes(device, &bytes) != 0) {
    std::fprintf(stderr, "there is no network device %s\n", device);
    std::exit(1);
  }
  Call(context, "barrier", nullptr, nullptr, 0);
  return bytes;
}

// Of every rank, [1, 2, ...].
std::string BytesOfAll(const Context& context, uint64_t mine) {
  std::vector<uint64_t> all(static_cast<size_t>(context->size));
  gloo::AllgatherOptions options(context);
  options.setInput(&mine, 1);
  options.setOutput(all.data(), all.size());
  gloo::allgather(options);
  std::string text;
  for (const uint64_t bytes : all) text += (text.empty() ? "[" : ", ") + std::to_string(bytes);
  return text + "]";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) return 2;
  const int rank = std::atoi(argv[1]), ranks = std::atoi(argv[2]);
  const std::string collective = argv[6];
  gloo::transport::tcp::attr attributes(argv[3]);
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(argv[4]);
  context->connectFullMesh(store, device);
  bool right = true;
  for (int a = 7; a < argc && right; ++a) {
    char* colon = nullptr;
    const size_t size = std::strtoul(argv[a], &colon, 10);
    const int iterations = std::atoi(colon + 1);
    std::vector<float> send(size / sizeof(float), static_cast<float>(rank + 1)), recv(size / sizeof(float), -1.0f);
    for (int i = 0; i < 1 + iterations / 10; ++i) Call(context, collective, send.data(), recv.data(), send.size());
    const LinkBytes before = CountBytes(context, argv[5]);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < iterations; ++i) Call(context, collective, send.data(), recv.data(), send.size());
    const std::chrono::duration<float, std::micro> took = std::chrono::steady_clock::now() - begin;
    const LinkBytes after = CountBytes(context, argv[5]);
    float mine[2] = {took.count() / static_cast<float>(iterations), Right(context, collective, recv) ? 0.0f : 1.0f};
    float worst[2] = {};
    AllReduce(context, mine, worst, 2, kMax);
    right = worst[1] == 0;
    if (rank == 0 && !right) std::fprintf(stderr, "%s of %zu bytes: wrong elements\n", collective.c_str(), size);
    const std::string sent = BytesOfAll(context, after.sent - before.sent);
    const std::string received = BytesOfAll(context, after.received - before.received);
    if (rank == 0) {
      std::printf("{\"size\": %zu, \"time_us\": %.3f, \"sent_bytes\": %s, \"received_bytes\": %s}\n", size,
                  static_cast<double>(worst[0]), sent.c_str(), received.c_str());
    }
    std::fflush(stdout);
  }
  return right ? 0 : 1;
}
