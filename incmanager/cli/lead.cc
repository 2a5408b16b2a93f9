#include "incmanager/cli/lead.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "base/address.h"
#include "base/printable.h"
#include "incmanager/rpc/standby.h"
#include "incmanager/store/etcd_client.h"
#include "incmanager/store/etcd_lead.h"
#include "incmanager/store/etcd_store.h"

namespace epic::manager {
namespace {

constexpr auto kLook = std::chrono::milliseconds(200);

// "192.0.2.1:7400 (process 12 on m1)": for people.
std::string OwnName(const std::string& listen) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  StatusOr<Address> address = ListenAddress(listen);
  if (address.ok() && address->IsAny()) address->host = host.data();
  return fmt::format("{} (process {} on {})", address.ok() ? address->ToString() : listen, getpid(),
                     host.data());
}

// What is answered, and said to the log when it changes.
class Words {
 public:
  std::string Get() const {
    const std::lock_guard lock(mutex_);
    return words_;
  }
  void Set(const std::string& words) {
    const std::lock_guard lock(mutex_);
    if (words == words_) return;
    words_ = words;
    spdlog::info("{}", words);
  }

 private:
  mutable std::mutex mutex_;
  std::string words_ = "stands by";
};

}  // namespace

StatusOr<Leading> AwaitLead(const std::string& store, const std::string& listen, const EndSignals& signals,
                            const std::function<void(const std::string& why)>& ends) {
  StatusOr<std::vector<std::string>> servers = EtcdServers(store);
  if (!servers.ok()) return servers.status();
  const auto etcd = std::make_shared<EtcdClient>(*std::move(servers));
  const std::string name = OwnName(listen);
  Words words;
  StatusOr<std::unique_ptr<Standby>> standby = Standby::Start(
      listen, [&words] { return words.Get(); }, ends);
  if (!standby.ok()) return standby.status();
  for (;;) {
    std::string leader;
    StatusOr<std::unique_ptr<EtcdLead>> lead = EtcdLead::Try(etcd, name, &leader, ends);
    if (lead.ok() && *lead != nullptr) {
      spdlog::info("leads by etcd at {}, epoch {}", etcd->ToString(), (*lead)->revision());
      const std::shared_ptr<EtcdLead> leads = *std::move(lead);
      auto opened = StartUnlessEnded(signals, leads.get(), [&] { return OpenEtcdStore(etcd, leads); });
      if (!opened) return Leading();
      if (!opened->ok()) return opened->status();
      return Leading{leads, **std::move(opened)};
    }
    words.Set(lead.ok() ? fmt::format("stands by: {} leads", Printable(leader))
                        : fmt::format("stands by: nobody is known to lead: {}",
                                      Printable(std::string(lead.status().message()))));
    if (signals.WaitFor(kLook) != 0) return Leading();
  }
}

int AwaitEndOfLead(const EndSignals& signals, const std::function<uint64_t()>& agents_heard) {
  constexpr int kSilent = 30;  // looks: time in which this process stood still is none of theirs
  const uint64_t begin = agents_heard();
  uint64_t heard = begin;
  for (int silent = 0; silent < kSilent;) {
    if (const int signal = signals.WaitFor(kLook); signal != 0) return signal;
    const uint64_t now = agents_heard();
    silent = now != heard || now == begin ? 0 : silent + 1;
    heard = now;
  }
  return 0;
}

}  // namespace epic::manager
