// What a manager answers that does not lead, and how that is told from other answers. Header only, as
// server_stream.h.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string>
#include <utility>

namespace epic {

// In what comes behind such an answer. No other answer of ours has it.
inline constexpr char kStandsBy[] = "epic-stands-by";

// Whether the call that has ended was answered so.
inline bool StandsBy(const grpc::ClientContext& context) {
  return context.GetServerTrailingMetadata().contains(kStandsBy);
}

// Answers every call of every service with UNAVAILABLE and what `words` gives then, called on gRPC's threads.
class StandingBy : public grpc::CallbackGenericService {
 public:
  explicit StandingBy(std::function<std::string()> words) : words_(std::move(words)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    class Answer : public grpc::ServerGenericBidiReactor {
     public:
      void OnDone() override { delete this; }
    };
    context->AddTrailingMetadata(kStandsBy, "1");
    auto* const answer = new Answer();
    answer->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, words_()));
    return answer;
  }

 private:
  const std::function<std::string()> words_;
};

}  // namespace epic
