#include "incmanager/cli/client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "incmanager/cli/json.h"
#include "incmanager/cli/manager_call.h"
#include "incmanager/cli/output.h"
#include "incmanager/cli/render.h"
#include "incmanager/cli/tenant.h"
#include "incmanager/cli/why.h"
#include "incmanager/text.h"
#include "proto/manager.grpc.pb.h"

namespace epic::manager {
namespace {

using Stub = proto::Manager::Stub;

// Of this machine's clock.
int64_t UnixMillis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Who has answered in the manager's place; empty if it is the manager, of an earlier version.
std::string OtherThanManager(const ClientOptions& options, const grpc::Status& status) {
  if (!status.error_message().empty()) return status.error_message();  // base/grpc/not_a_manager.h
  return options.manager.starts_with("unix:") ? "this is a host's daemon, which takes sessions of ranks alone" : "";
}

int Report(const ClientOptions& options, const grpc::Status& status) {
  const bool stands_by = status.error_code() == grpc::ABORTED;
  if (stands_by || status.error_code() == grpc::UNAVAILABLE) {  // never the manager's own (ManagerCalls)
    fmt::print(stderr, "incmanager: no manager {} at {} (--manager, EPIC_MANAGER): {}\n",
               stands_by ? "leads" : "answers", options.manager, status.error_message());
    return kExitUnreachable;
  }
  if (status.error_code() == grpc::UNIMPLEMENTED) {
    if (const std::string who = OtherThanManager(options, status); !who.empty()) {
      fmt::print(stderr, "incmanager: what answers at {} is no manager (--manager, EPIC_MANAGER): {}\n", options.manager, who);
      return kExitUnreachable;
    }
    fmt::print(stderr, "incmanager: the manager at {} is of an earlier version, which cannot do this\n",
               options.manager);
    return kExitRefused;
  }
  fmt::print(stderr, "incmanager: {}\n", status.error_message());
  return kExitRefused;
}

template <typename Reply, typename Render>
void Print(const ClientOptions& options, const Reply& reply, const Render& render) {
  if (options.json) {
    Write(ToJson(reply, UnixMillis()));
  } else {
    Write(render(reply));
  }
}

// Calls method; on success prints the reply as JSON or as render makes it.
template <typename Request, typename Reply, typename Render>
int Ask(const ClientOptions& options,
        grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*), const Request& request,
        const Render& render) {
  Reply reply;
  const grpc::Status status = ManagerCalls(options.manager).Call(method, request, &reply);
  if (!status.ok()) return Report(options, status);
  Print(options, reply, render);
  return kExitOk;
}

// Groups that are asked for at once: the manager does other things in between.
constexpr uint32_t kGroupsPerPage = 100;

// As Ask, page by page: next has the request ask for what comes after the last group of a reply.
template <typename Request, typename Reply, typename Render>
int AskForPages(const ClientOptions& options,
                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*), Request request,
                void (*next)(const Reply& reply, Request* request), const Render& render) {
  ManagerCalls manager(options.manager);
  Reply all;
  for (bool more = true; more;) {
    Reply reply;
    if (const grpc::Status status = manager.Call(method, request, &reply); !status.ok())
      return Report(options, status);
    more = reply.more();
    if (more) next(reply, &request);
    reply.clear_more();
    all.MergeFrom(reply);
  }
  Print(options, all, render);
  return kExitOk;
}

proto::CreateGroupRequest RequestOf(const CreateOptions& create) {
  proto::CreateGroupRequest request;
  request.set_name(create.name);
  request.set_world_size(create.size);
  for (const std::string& host : create.hosts) request.add_hosts(host);
  request.set_mode(static_cast<proto::Mode>(create.mode));
  for (const auto& [name, mode] : create.switch_modes)
    (*request.mutable_switch_modes())[name] = static_cast<proto::Mode>(mode);
  request.set_reproducible(create.reproducible);
  request.set_max_bytes(create.max_bytes);
  request.set_quantise(create.quantise);
  request.set_quantise_int8(create.quantise_int8);
  if (create.priority_limit) request.set_priority_limit(*create.priority_limit);
  request.set_path_mtu(create.path_mtu);
  request.set_message_packets(create.message_packets);
  request.set_window_messages(create.window_messages);
  if (create.inline_bytes) request.set_inline_bytes(*create.inline_bytes);
  if (create.start_psn) request.set_start_psn(*create.start_psn);
  for (const std::string& type : create.types) request.add_types(type);
  for (const std::string& operation : create.operations) request.add_operations(operation);
  request.set_path(create.path == "network" ? proto::PATH_NETWORK
                   : create.path == "hosts" ? proto::PATH_HOSTS
                                            : proto::PATH_AUTO);
  request.set_policy(create.policy);
  request.set_prefer(create.prefer);
  request.set_rate_gbps(create.rate_gbps);
  request.set_tenant(create.tenant);
  if (create.duty) request.set_duty(*create.duty);
  request.set_job(create.job);
  request.set_phase(create.phase);
  return request;
}

// All that is there behind request->after, which is left at the newest; printed, or, in JSON, kept in *all. *any is
// set if there was one.
grpc::Status PrintEvents(ManagerCalls* manager, bool json, proto::EventsRequest* request,
                         proto::EventsReply* all, bool* any) {
  for (bool more = true; more;) {
    proto::EventsReply reply;
    if (const grpc::Status status = manager->Call(&Stub::Events, *request, &reply); !status.ok())
      return status;
    *any = *any || !reply.events().empty();
    if (json) {
      all->mutable_events()->MergeFrom(reply.events());
      all->set_newest(reply.newest());
    } else {
      Write(RenderEvents(reply, UnixMillis()));
    }
    more = reply.more();
    // Of a manager that was started anew numbers begin anew.
    request->set_after(more ? reply.events(reply.events_size() - 1).number() : reply.newest());
    request->set_last(0);
  }
  return grpc::Status::OK;
}

}  // namespace

int ShowTopology(const ClientOptions& options) {
  return Ask(options, &Stub::Topology, proto::TopologyRequest(),
             [](const proto::TopologyReply& r) { return r.yaml(); });
}

int ListSwitches(const ClientOptions& options) {
  return Ask(options, &Stub::ListSwitches, proto::ListSwitchesRequest(), RenderSwitches);
}

int ListHosts(const ClientOptions& options) {
  return Ask(options, &Stub::ListHosts, proto::ListHostsRequest(), RenderHosts);
}

int ShowTables(const ClientOptions& options, const std::string& switch_name) {
  proto::TablesRequest request;
  request.set_switch_name(switch_name);
  request.mutable_page()->set_most_groups(kGroupsPerPage);
  const auto next = [](const proto::DumpReply& reply, proto::TablesRequest* after) {
    after->mutable_page()->set_after_group(reply.groups(reply.groups_size() - 1).config().group_id());
  };
  return AskForPages<proto::TablesRequest, proto::DumpReply>(options, &Stub::Tables, request, next,
                                                             RenderTables);
}

int ListGroups(const ClientOptions& options) {
  proto::ListGroupsRequest request;
  request.set_most_groups(kGroupsPerPage);
  const auto next = [](const proto::ListGroupsReply& reply, proto::ListGroupsRequest* after) {
    after->set_after(reply.groups(reply.groups_size() - 1).name());
  };
  return AskForPages<proto::ListGroupsRequest, proto::ListGroupsReply>(options, &Stub::ListGroups, request,
                                                                       next, RenderGroups);
}

int ShowGroup(const ClientOptions& options, const std::string& name) {
  proto::ShowGroupRequest request;
  request.set_name(name);
  request.set_ended(true);
  request.set_ask_ranks(true);
  return Ask(options, &Stub::ShowGroup, request, RenderGroup);
}

int Why(const ClientOptions& options, const std::string& name) {
  proto::ShowGroupRequest request;
  request.set_name(name);
  request.set_ended(true);
  request.set_ask_ranks(true);
  proto::GroupState group;
  const grpc::Status status = ManagerCalls(options.manager).Call(&Stub::ShowGroup, request, &group);
  if (!status.ok()) return Report(options, status);
  Print(options, WhyOf(group), RenderWhy);
  return kExitOk;
}

int Explain(const ClientOptions& options, const CreateOptions& create) {
  proto::ExplainRequest request;
  *request.mutable_group() = RequestOf(create);
  proto::ExplainReply reply;
  const grpc::Status status = ManagerCalls(options.manager).Call(&Stub::Explain, request, &reply);
  if (!status.ok()) return Report(options, status);
  Print(options, reply, RenderExplanation);
  return reply.has_failure() ? kExitRefused : kExitOk;
}

int CreateGroup(const ClientOptions& options, const CreateOptions& create) {
  return Ask(options, &Stub::CreateGroup, RequestOf(create), [](const proto::GroupState& group) {
    return fmt::format("group {} is reserved for {}\n", group.name(), Counted(group.world_size(), "rank", "ranks"));
  });
}

int DestroyGroup(const ClientOptions& options, const std::string& name, bool force) {
  proto::DestroyGroupRequest request;
  request.set_name(name);
  request.set_force(force);
  return Ask(options, &Stub::DestroyGroup, request, [&name](const proto::DestroyGroupReply&) {
    return fmt::format("group {} is destroyed\n", name);
  });
}

int DefaultPolicy(const ClientOptions& options, const std::string& policy) {
  proto::PolicyRequest request;
  request.set_policy(policy);
  return Ask(options, &Stub::Policy, request, [](const proto::PolicyReply& reply) {
    return fmt::format("policy {}, of groups that ask for none\n", reply.policy());
  });
}

int Adopt(const ClientOptions& options, const std::string& switch_name) {
  proto::AdoptRequest request;
  request.set_switch_name(switch_name);
  return Ask(options, &Stub::Adopt, request, [&](const proto::AdoptReply&) {
    return fmt::format("switch {} is this manager's when its agent is heard next, within seconds\n",
                       switch_name);
  });
}

int SetTenant(const ClientOptions& options, const TenantOptions& tenant) {
  proto::TenantsReply all;
  const grpc::Status status =
      ManagerCalls(options.manager).Call(&Stub::ListTenants, proto::ListTenantsRequest(), &all);
  if (!status.ok()) return Report(options, status);
  proto::SetTenantRequest request;
  *request.mutable_tenant() = TenantWith(all, tenant);
  return Ask(options, &Stub::SetTenant, request, RenderTenants);
}

int RemoveTenant(const ClientOptions& options, const std::string& name) {
  proto::RemoveTenantRequest request;
  request.set_name(name);
  return Ask(options, &Stub::RemoveTenant, request, RenderTenants);
}

int ListTenants(const ClientOptions& options) {
  return Ask(options, &Stub::ListTenants, proto::ListTenantsRequest(), RenderTenants);
}

int ShowEvents(const ClientOptions& options, const EventsOptions& events) {
  constexpr auto kPause = std::chrono::milliseconds(500);
  proto::EventsRequest request;
  request.set_last(events.last);
  if (!events.group.empty()) request.set_about("group " + events.group);
  if (!events.switch_name.empty()) request.set_about("switch " + events.switch_name);
  ManagerCalls manager(options.manager);
  proto::EventsReply all;
  bool any = false;
  const auto print = [&] { return PrintEvents(&manager, options.json, &request, &all, &any); };
  if (const grpc::Status status = print(); !status.ok()) return Report(options, status);
  if (!any && !options.json && !request.about().empty())
    fmt::print(stderr, "incmanager: no event is kept that names the {}\n", request.about());
  while (events.follow) {
    std::this_thread::sleep_for(kPause);
    if (const grpc::Status status = print(); !status.ok()) return Report(options, status);
  }
  if (options.json) Write(ToJson(all, UnixMillis()));
  return kExitOk;
}

}  // namespace epic::manager
