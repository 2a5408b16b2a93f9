// What a manager answers that does not lead, and how that is told from other answers. Header only, as
// server_stream.h.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/server_interceptor.h>

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

// Has calls of all services of a server end so when it leads no more, whatever they were to end with: for
// ServerBuilder::SetInterceptorCreators. What they have done is done.
class StandingByOnceItIsOver : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // leads: called on gRPC's threads, as each call ends; does not wait. words: of the answer.
  StandingByOnceItIsOver(std::function<bool()> leads, std::string words)
      : leads_(std::move(leads)), words_(std::move(words)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo*) override {
    return new AtItsEnd(this);
  }

 private:
  class AtItsEnd : public grpc::experimental::Interceptor {
   public:
    explicit AtItsEnd(const StandingByOnceItIsOver* of) : of_(of) {}
    void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
      using grpc::experimental::InterceptionHookPoints;
      if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS) && !of_->leads_()) {
        methods->GetSendTrailingMetadata()->emplace(kStandsBy, "1");
        methods->ModifySendStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, of_->words_));
      }
      methods->Proceed();
    }

   private:
    const StandingByOnceItIsOver* const of_;
  };

  const std::function<bool()> leads_;
  const std::string words_;
};

}  // namespace epic
